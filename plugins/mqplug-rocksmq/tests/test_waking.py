"""Waking up: whoever waits has a message at once, here and in another process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from rocksmq_stores import Member, serving

import mqplug
from mqplug import Position

WAIT = 5.0  # seconds of one poll: a guest asks anew after no more


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
    """Who waits is woken by the message, each time, and does not only look when the wait is over."""
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
    reader = Member(mq, "orders", None, start={log: Position(log, (0,)) for log in mq.partitions("orders")})
    for _ in range(20):
        asked.release()
        deadline = time.monotonic() + 30
        while not reader.driver.poll(1, WAIT):  # a poll may end early, with nothing
            assert time.monotonic() < deadline
        took.append(time.monotonic() - sent[-1])
    reader.driver.close(10)
    sender.join()
    assert median(took) < WAIT - 1, "it did not wake, and looked when the time was over"
