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
