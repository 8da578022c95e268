"""TO: calls end in time, neither late nor early, also while the broker is suspended; interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from mqplug import EARLIEST, LATEST, CloseIncomplete, ConnectError, Consumer, Error, Timeout
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import OUTAGE, outage, patiently

case = Registry()


def blocking_calls(bench: Bench, topic: str) -> list[Call]:
    """Return every call that may wait, as a function of its timeout."""
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
    """Every blocking call takes a timeout; a negative one raises ``ValueError``, a non-number ``TypeError``."""
    topic, ids = bench.filled(1)
    for call in blocking_calls(bench, topic):
        for wrong in (-1, -0.001, float("nan")):
            with bench.raises(ValueError):
                call(wrong)
        for odd in ("1", True):
            with bench.raises(TypeError):
                call(odd)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("TO-08", timed=True, profile="full")
def test_interrupted(bench: Bench) -> None:
    """Ctrl-C ends a waiting receive at once, and the consumer continues afterwards."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    topic, ids = bench.filled(1)
    reader = bench.reader(topic)
    bench.delivers(reader, ids)
    for receive in (lambda: reader.receive(bench.patience), lambda: reader.receive_many(5, bench.patience)):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        with _interruptible(), bench.raises(KeyboardInterrupt):
            timer.start()
            receive()
        spent = time.monotonic() - began
        bench.that(spent < 0.3 + 0.5 * bench.scale, f"it took {spent - 0.3:.2f} s")
        timer.join()
        bench.only_new(reader, topic)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C raise ``KeyboardInterrupt``, also if a shell ignores it for its background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


SLACK = 1.0  # seconds that a busy machine may take beyond a timeout

Call = Callable[[Any], object]


def calls(bench: Bench, topic: str) -> dict[str, Call]:
    """Return each call that takes a timeout, as a function of it."""
    client, producer, reader = bench.client, bench.filler(topic), bench.reader(topic, LATEST)
    found: dict[str, Call] = {
        "health": client.health, "create": lambda t: client.create_topic(topic, exist_ok=True, timeout=t),
        "partitions": lambda t: client.partitions(topic, timeout=t),
        "watermarks": lambda t: client.watermarks(topic, timeout=t),
        "bounds": lambda t: client.bounds(topic, timeout=t),
        "resolve": lambda t: client.resolve(topic, LATEST, timeout=t),
        "producer": lambda t: client.producer(topic, timeout=t).close(),
        "consumer": lambda t: client.consumer(topic, start=LATEST, timeout=t).close(),
        "send": lambda t: producer.send(b"x", partition=0, timeout=t),
        "send_many": lambda t: producer.send_many([b"x"], timeout=t), "flush": producer.flush,
        "seek": lambda t: reader.seek(EARLIEST, timeout=t),
    }  # fmt: skip
    if client.capabilities.list_topics:
        found["topics"] = lambda t: client.topics(timeout=t)
    if client.capabilities.groups:
        member = bench.member(topic, bench.name())
        bench.wait(
            lambda: member.receive_many(100, bench.waiting.poll) or member.assignment(), "the member has its partition"
        )
        found["commit"] = member.commit
        found["committed"] = lambda t: member.committed(timeout=t)
    return found


@case("TO-01", timed=True, profile="full")
def test_honoured(bench: Bench) -> None:
    """Every call that waits takes a timeout and ends with it, whether its work is done or not."""
    topic = bench.topic()
    for name, call in calls(bench, topic).items():
        for timeout in (10.0, 0.001):
            began = time.monotonic()
            try:
                call(timeout)
            except Error as error:
                late = all(isinstance(each, Timeout) for each in getattr(error, "results", [error]))
                bench.that(timeout < 1 and late, f"{name}({timeout}) raised {error!r}")
            took = time.monotonic() - began
            bench.that(took < timeout + SLACK * bench.scale, f"{name}({timeout}) took {took:.2f} s")
    reader = bench.reader(topic, LATEST)
    receives: dict[str, Call] = {"receive": reader.receive, "receive_many": lambda t: reader.receive_many(5, t)}
    for name, receive in receives.items():
        began = time.monotonic()
        bench.that(not receive(0.4), "no message comes from an empty topic")
        took = time.monotonic() - began
        bench.that(0.39 < took < 0.4 + SLACK * bench.scale, f"{name}(0.4) took {took:.2f} s")
    bench.only_new(reader, topic)


@case("TO-05", needs=("persistent",), hooks=OUTAGE, timeout=300, profile="full", timed=True)
def test_watermarks_of_the_dead(bench: Bench) -> None:
    """A query for watermarks while the broker is away ends within the timeout, with a retryable error."""
    topic, _ = bench.filled(2)
    before = bench.client.watermarks(topic)
    with outage(bench):
        began = time.monotonic()
        with bench.raises(Timeout, ConnectError) as caught:
            bench.client.watermarks(topic, timeout=2)
        took = time.monotonic() - began
    bench.that(took < 2 + 2 * SLACK * bench.scale, f"it took {took:.2f} s")
    bench.equal(caught.value.retryable, True)  # type: ignore[attr-defined]
    bench.equal(bench.client.watermarks(topic, timeout=2 * bench.patience), before)


@case("TO-09", timed=True, profile="full")
def test_one_type(bench: Bench) -> None:
    """A call that runs out of time raises ``Timeout``, which is an mqplug error and Python's own ``TimeoutError``."""
    topic = bench.topic()
    for name in ("partitions", "watermarks", "bounds", "consumer", "seek"):
        with bench.raises(Timeout) as caught:
            calls(bench, topic)[name](1e-9)
        bench.that(isinstance(caught.value, TimeoutError) and isinstance(caught.value, Error), f"{name}: it is both")
        bench.that(caught.value.retryable and caught.value.fix, f"{name}: {caught.value!r}")  # type: ignore[attr-defined]
    able = bench.client.capabilities
    if able.groups and able.ordered and able.assignment_events:
        _wait_for_a_partition(bench, topic)


def _wait_for_a_partition(bench: Bench, topic: str) -> None:
    group = bench.name()
    worker = bench.member(topic, group)
    bench.fill(topic, 1)
    bench.take(worker, 1)
    spare = bench.member(topic, group)  # the only partition is taken
    began = time.monotonic()
    with bench.raises(Timeout):
        spare.seek(EARLIEST, timeout=0.5)
    took = time.monotonic() - began
    bench.that(0.45 < took < 0.5 + 2 * SLACK * bench.scale, f"it took {took:.2f} s")
    bench.that(worker.receive_many(1, 0) is not None, "the active member continues")


SHORT_S = 1.0
LONG_S = 4.0
LATE_S = 2.5  # beyond a timeout: enough for a busy machine, and less than a driver waits that ignores the timeout
EARLY_S = 0.05


@case("TO-10", needs=("persistent",), hooks=("pause", "unpause"), timeout=300, profile="full")
def test_standstill(bench: Bench) -> None:
    """While the broker is suspended every call ends with its timeout, neither late nor early, receive and close too."""
    assert bench.harness.pause is not None and bench.harness.unpause is not None
    topic, _ = bench.filled(3)
    receivers = _receivers(bench, topic)
    calls = {**_asking(bench, topic), **_sending(bench, topic), **_receiving(bench, topic), **_moving(bench, topic)}
    calls |= {f"receive of {name}": each.receive for name, each in receivers.items()}
    closing = _closing(bench, topic)
    bench.harness.pause()
    try:
        for seconds in (SHORT_S, LONG_S):
            _all_end(bench, calls, seconds * min(bench.scale, 1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of an object whose close overruns
            _all_end(bench, closing, SHORT_S)
    finally:
        bench.harness.unpause()
    sent = bench.connect().producer(topic).send(b"after", partition=0)
    for receiver in receivers.values():
        patiently(bench, receiver, {sent})


def _all_end(bench: Bench, calls: dict[str, Call], timeout: float) -> None:
    """Make all these calls at the same time, each with a client of its own, and check how each ended."""
    with ThreadPoolExecutor(len(calls)) as pool:
        outcomes = dict(zip(calls, pool.map(lambda call: _outcome(call, timeout), calls.values()), strict=True))
    most = timeout + LATE_S * max(bench.scale, 1.0)
    for name, (outcome, took) in outcomes.items():
        what = f"{name} with a timeout of {timeout:g} s ended after {took:.2f} s with {outcome!r}"
        bench.that(took < most, what)
        errors = [each for each in getattr(outcome, "results", [outcome]) if isinstance(each, Error)]
        if any(isinstance(each, Timeout) for each in errors) or (name.startswith("receive") and not outcome):
            bench.that(took > timeout - EARLY_S, what)
        bench.that(all(each.retryable or isinstance(each, CloseIncomplete) for each in errors), what)


def _outcome(call: Call, timeout: float) -> tuple[object, float]:
    """Return the result or the error of a call, and the seconds that it took."""
    began = time.monotonic()
    try:
        outcome = call(timeout)
    except Error as error:
        outcome = error
    return outcome, time.monotonic() - began


def _receivers(bench: Bench, topic: str) -> dict[str, Consumer]:
    """Return consumers that have nothing left to receive."""
    able = bench.client.capabilities
    found = {"a reader": bench.connect().consumer(topic, start=LATEST)}
    if able.durable_groups and able.ordered:
        found["a member"] = bench.member(topic, bench.name(), start=LATEST)
    if able.durable_groups and able.shared:
        found["a member that shares"] = bench.member(topic, bench.name(), start=LATEST, mode="shared")
    for consumer in found.values():
        bench.rests(consumer)
    return found


def _asking(bench: Bench, topic: str) -> dict[str, Call]:
    """Return queries, each of another client."""
    (health, partitions, marks, bounds, starts, create, lag), new = (
        (bench.connect() for _ in range(7)),
        bench.owned(bench.name()),
    )
    found: dict[str, Call] = {
        "health": health.health, "partitions": lambda t: partitions.partitions(topic, timeout=t),
        "watermarks": lambda t: marks.watermarks(topic, timeout=t), "bounds": lambda t: bounds.bounds(topic, timeout=t),
        "resolve": lambda t: starts.resolve(topic, LATEST, timeout=t),
        "create_topic": lambda t: create.create_topic(new, exist_ok=True, timeout=t),
    }  # fmt: skip
    if bench.client.capabilities.durable_groups:
        group = bench.name()
        bench.member(topic, group).close()
        found["lag"] = lambda t: lag.lag(topic, group=group, timeout=t)
    return found


def _sending(bench: Bench, topic: str) -> dict[str, Call]:
    """Return sends, each of another producer."""
    send, many, flush = (bench.connect().producer(topic) for _ in range(3))
    opener = bench.connect()

    def flushed(timeout: float) -> None:
        flush.submit(b"x", partition=0)
        flush.flush(timeout)

    return {
        "send": lambda t: send.send(b"x", partition=0, timeout=t), "flush": flushed,
        "send_many": lambda t: many.send_many([b"x"], timeout=t),
        "producer": lambda t: opener.producer(topic, timeout=t),
    }  # fmt: skip


def _receiving(bench: Bench, topic: str) -> dict[str, Call]:
    """Return openings of consumers, and a ``receive_many``."""
    able, reader, group = bench.client.capabilities, bench.connect().consumer(topic, start=LATEST), bench.name()
    one, other = bench.connect(), bench.connect()
    bench.rests(reader)
    found: dict[str, Call] = {
        "receive_many": lambda t: reader.receive_many(5, t),
        "consumer": lambda t: one.consumer(topic, start=EARLIEST, timeout=t),
    }
    if able.durable_groups and able.ordered:
        found["consumer with a group"] = lambda t: other.consumer(topic, group=group, timeout=t)
    return found


def _moving(bench: Bench, topic: str) -> dict[str, Call]:
    """Return seeks and commits."""
    able, reader = bench.client.capabilities, bench.connect().consumer(topic, start=EARLIEST)
    bench.take(reader, 3)
    found: dict[str, Call] = {"seek": lambda t: reader.seek(LATEST, timeout=t)}
    if able.durable_groups and able.ordered:
        mover, member = bench.member(topic, bench.name()), bench.member(topic, bench.name())
        bench.take(mover, 3)
        messages = bench.take(member, 3)

        def commit(timeout: float) -> None:
            member.ack(messages.pop(0))
            member.commit(timeout)

        found |= {"seek of a member": lambda t: mover.seek(EARLIEST, timeout=t), "commit": commit}
    return found


def _closing(bench: Bench, topic: str) -> dict[str, Call]:
    """Return closes of objects that have something left to do."""
    producer, client = bench.connect().producer(topic), bench.connect()
    client.consumer(topic, start=EARLIEST)

    def close_producer(timeout: float) -> None:
        producer.submit(b"x", partition=0)
        producer.close(timeout)

    found: dict[str, Call] = {
        "close of a producer": close_producer,
        "close of a client": client.close,
    }
    if bench.client.capabilities.durable_groups and bench.client.capabilities.ordered:
        member = bench.member(topic, bench.name())
        message = bench.take(member, 1)[0]

        def close_member(timeout: float) -> None:
            member.ack(message)
            member.close(timeout)

        found["close of a member"] = close_member
    return found
