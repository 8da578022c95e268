"""TO: calls to a broker that stands still end in time, neither late nor early."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mqplug import EARLIEST, LATEST, CloseIncomplete, Consumer, Error, Timeout
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import patiently

case = Registry()

SHORT_S = 1.0
LONG_S = 4.0
LATE_S = 2.5  # beyond a timeout: what a busy machine may take, and less than what a driver waits that asks no one
EARLY_S = 0.05

Call = Callable[[float], object]


@case("TO-10", needs=("persistent",), hooks=("pause", "unpause"), timeout=300, profile="full")
def test_standstill(bench: Bench) -> None:
    """While the broker stands still every call ends with its timeout, neither late nor early: receive and close too."""
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
            warnings.simplefilter("ignore", ResourceWarning)  # what overruns is abandoned, with this warning
            _all_end(bench, closing, SHORT_S)
    finally:
        bench.harness.unpause()
    sent = bench.connect().producer(topic).send(b"after", partition=0)
    for receiver in receivers.values():
        patiently(bench, receiver, {sent})


def _all_end(bench: Bench, calls: dict[str, Call], timeout: float) -> None:
    """Make all these calls at the same time, each with a client of its own, and judge how each ended."""
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
    """What a call returned or raised, and how long it took."""
    began = time.monotonic()
    try:
        outcome = call(timeout)
    except Error as error:
        outcome = error
    return outcome, time.monotonic() - began


def _receivers(bench: Bench, topic: str) -> dict[str, Consumer]:
    """Consumers that have nothing left to receive."""
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
    """Questions, each of another client."""
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
    """Sends, each of another producer."""
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
    """Openings of consumers, and receives of many."""
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
    """Seeks and commits."""
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
    """Closes of what has something left to do."""
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
