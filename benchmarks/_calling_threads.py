"""Makes the same call from several threads at once, and times each call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import chain

from benchmarks._contests import TimedMessages
from benchmarks._load import BATCH_MESSAGES


def from_threads(threads: int, calls: int, call: Callable[[bytes], object], values: list[bytes]) -> TimedMessages:
    """Make `calls` calls from each of `threads` threads. An error in a thread is raised here."""
    taken: list[list[float]] = [[] for _ in range(threads)]
    failed: list[BaseException] = []

    def run(mine: list[float]) -> None:
        clock = time.perf_counter
        try:
            for number in range(calls):
                began = clock()
                call(values[number % BATCH_MESSAGES])
                mine.append(clock() - began)
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            failed.append(error)

    started = [threading.Thread(target=run, args=(mine,)) for mine in taken]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        raise failed[0]
    return TimedMessages(list(chain.from_iterable(taken)))
