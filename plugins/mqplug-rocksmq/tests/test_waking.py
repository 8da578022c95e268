"""Waking up: whoever waits has a message at once, here and in another process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from rocksmq_words import serving

import mqplug
from mqplug import EARLIEST
from mqplug_rocksmq._bell import Bell


@pytest.fixture(params=["owner", "guest"])
def mq(request: pytest.FixtureRequest, path: Path) -> Iterator[mqplug.Client]:
    """A client that owns its store, or one whose store another process owns."""
    with ExitStack() as stack:
        if request.param == "guest":
            stack.enter_context(serving(path, "--sync", "os"))
        client = stack.enter_context(mqplug.connect("rocksmq", path=str(path), sync="os"))
        client.create_topic("orders")
        yield client


def test_a_send_ends_a_wait_at_once(mq: mqplug.Client) -> None:
    """Who waits has a message long before anybody who looks now and then would."""
    sent: list[float] = []
    asked = threading.Semaphore(0)

    def send() -> None:
        with mq.producer("orders") as out:
            for _ in range(20):
                assert asked.acquire(timeout=10)
                time.sleep(0.01)  # let it wait
                sent.append(time.monotonic())
                out.send(b"x")

    sender = threading.Thread(target=send)
    sender.start()
    took = []
    with mq.consumer("orders", start=EARLIEST) as orders:
        for _ in range(20):
            asked.release()
            assert orders.receive(timeout=10) is not None
            took.append(time.monotonic() - sent[-1])
    sender.join()
    assert median(took) < 0.03


def test_a_bell_is_heard_once() -> None:
    """However often it rings before anybody waits, one wait ends; the next one lasts its time."""
    bell = Bell()
    assert not bell.wait(0)
    for _ in range(3):
        bell.ring()
    assert bell.wait(10)
    assert not bell.wait(0)


def test_a_bell_ends_the_wait_of_another_thread() -> None:
    """Many threads may ring at once; whoever waits goes on, and nobody fails."""
    bell, heard = Bell(), threading.Event()
    waiting = threading.Thread(target=lambda: heard.set() if bell.wait(10) else None)
    waiting.start()
    ringing = [threading.Thread(target=lambda: [bell.ring() for _ in range(1000)]) for _ in range(4)]
    for each in ringing:
        each.start()
    for each in [*ringing, waiting]:
        each.join(10)
    assert heard.is_set()
