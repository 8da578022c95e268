"""TO: calls end in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mqplug import EARLIEST, LATEST, ConnectError, Error, Timeout
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_faults import OUTAGE, outage

case = Registry()

SLACK = 1.0  # seconds that a busy machine may take beyond a timeout

Call = Callable[[Any], object]


def calls(bench: Bench, topic: str) -> dict[str, Call]:
    """Each call that takes a timeout, as a function of it."""
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
    """Every call that waits takes a timeout and ends with it, whether it was done or not."""
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
        bench.that(not receive(0.4), "an empty topic gives nothing")
        took = time.monotonic() - began
        bench.that(0.39 < took < 0.4 + SLACK * bench.scale, f"{name}(0.4) took {took:.2f} s")
    bench.only_new(reader, topic)


@case("TO-05", needs=("persistent",), hooks=OUTAGE, timeout=300, profile="full", timed=True)
def test_watermarks_of_the_dead(bench: Bench) -> None:
    """To ask for watermarks while the broker is away ends within the timeout, with a retryable error."""
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
    """What runs out of time raises ``Timeout``, which is an mqplug error and Python's own ``TimeoutError``."""
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
    bench.that(worker.receive_many(1, 0) is not None, "the one that works goes on")
