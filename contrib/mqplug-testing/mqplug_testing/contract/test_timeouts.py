"""TO: timeouts, and being interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mqplug import EARLIEST, LATEST
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()

Call = Callable[[float | None], object]


def blocking_calls(bench: Bench, topic: str) -> list[Call]:
    """Every call that may wait, as a function of its timeout."""
    client, reader, producer = bench.connect(), bench.reader(topic), bench.producer(topic)
    calls: list[Call] = [
        client.health, lambda t: client.partitions(topic, timeout=t), reader.receive,
        lambda t: client.watermarks(topic, timeout=t), lambda t: client.bounds(topic, timeout=t),
        lambda t: client.resolve(topic, LATEST, timeout=t),
        lambda t: client.producer(topic, timeout=t), lambda t: client.consumer(topic, start=EARLIEST, timeout=t),
        lambda t: client.create_topic(topic, exist_ok=True, timeout=t), lambda t: reader.receive_many(5, t),
        lambda t: reader.seek(EARLIEST, timeout=t), lambda t: producer.send(b"x", timeout=t),
        lambda t: producer.submit(b"x", timeout=t), lambda t: producer.send_many([b"x"], timeout=t),
        producer.flush, reader.close, producer.close, client.close,
    ]  # fmt: skip
    if client.capabilities.groups:
        member = bench.member(topic, bench.name())
        calls += [
            member.commit, lambda t: member.committed(timeout=t), member.close,
            lambda t: client.lag(topic, group=bench.name(), timeout=t),
        ]  # fmt: skip
    return calls


@case("TO-02")
def test_timeouts(bench: Bench) -> None:
    """Every blocking call takes a timeout; a negative one is ``ValueError``, what is no number ``TypeError``."""
    topic, ids = bench.filled(1)
    for call in blocking_calls(bench, topic):
        for wrong in (-1, -0.001, float("nan")):
            with bench.raises(ValueError):
                call(wrong)
        for odd in ("1", True):
            with bench.raises(TypeError):
                call(odd)  # type: ignore[arg-type]
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("TO-08", timed=True, profile="full")
def test_interrupted(bench: Bench) -> None:
    """Ctrl-C ends a receive that waits, at once, and the consumer goes on afterwards."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    topic, ids = bench.filled(1)
    reader = bench.reader(topic)
    bench.delivers(reader, ids)
    for receive in (lambda: reader.receive(bench.patience), lambda: reader.receive_many(5, bench.patience)):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        with _heard(), bench.raises(KeyboardInterrupt):
            timer.start()
            receive()
        spent = time.monotonic() - began
        bench.that(spent < 0.3 + 0.5 * bench.scale, f"it took {spent - 0.3:.2f} s")
        timer.join()
        bench.only_new(reader, topic)


@contextmanager
def _heard() -> Iterator[None]:
    """Ctrl-C is heard, also where a shell ignores it for what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
