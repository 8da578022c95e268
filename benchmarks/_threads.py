"""The same call from several threads at once, each call timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import chain

from benchmarks._load import MANY
from benchmarks._paired import Timed


def from_threads(threads: int, calls: int, call: Callable[[bytes], object], values: list[bytes]) -> Timed:
    """Make so many calls from each of so many threads. What fails in a thread is raised here."""
    taken: list[list[float]] = [[] for _ in range(threads)]
    failed: list[BaseException] = []

    def run(mine: list[float]) -> None:
        clock = time.perf_counter
        try:
            for number in range(calls):
                began = clock()
                call(values[number % MANY])
                mine.append(clock() - began)
        except BaseException as error:  # noqa: BLE001 - raised again
            failed.append(error)

    started = [threading.Thread(target=run, args=(mine,)) for mine in taken]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        raise failed[0]
    return Timed(list(chain.from_iterable(taken)))
