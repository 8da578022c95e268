"""The measurements of ``mqplug bench``: sending, receiving, and the time from send to receive."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count, cycle, islice
from math import ceil
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

import attrs

import mqplug
from mqplug_cli._client_options import closed_at_end

PAYLOADS: Final = 64  # different ones, so that compression does not help too much
CLOCK_MESSAGES: Final = 256  # sent between two looks at the clock
BATCH_MESSAGES: Final = 1_000


@attrs.frozen(kw_only=True)
class Load:
    """The messages of each measurement: their size, and their number or the duration in seconds."""

    size: int = 1024
    count: int | None = None
    seconds: float = 5.0
    latencies: int = 1_000
    timeout: float = 30.0

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads, which are the same in each run."""
        source = random.Random(1)  # noqa: S311 - no secret
        return [source.randbytes(self.size) for _ in range(PAYLOADS)]


@attrs.frozen
class Throughput:
    """The number of messages sent or received, and the time it took."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


@attrs.frozen
class Latencies:
    """The seconds until each message was acknowledged, and until it was received."""

    acknowledged: Sequence[float]
    received: Sequence[float]


def measure_produce(mq: mqplug.Client, topic: str, load: Load) -> Throughput:
    """Time ``submit`` of each message, and the flush after which all are stored."""
    payloads = cycle(load.payloads)
    numbers = range(0, load.count, CLOCK_MESSAGES) if load.count is not None else count(0, CLOCK_MESSAGES)
    sent = 0
    with _producer(mq, topic, load) as out:
        out.send(next(payloads), timeout=load.timeout)  # sets up routes and connections
        began = time.perf_counter()
        ends = float("inf") if load.count is not None else began + load.seconds
        for number in numbers:
            size = CLOCK_MESSAGES if load.count is None else min(CLOCK_MESSAGES, load.count - number)
            for payload in islice(payloads, size):
                out.submit(payload, timeout=load.timeout)
            sent += size
            if time.perf_counter() >= ends:
                break
        out.flush(load.timeout)
        return Throughput(sent, time.perf_counter() - began)


def measure_consume(mq: mqplug.Client, topic: str, start: Sequence[mqplug.Position], load: Load) -> Throughput:
    """Time receiving all values from ``start`` to the end, in batches, without a group."""
    received = 0
    with mq.consumer(topic, start=mqplug.EARLIEST, until=mqplug.LATEST, timeout=load.timeout) as consumer:
        for position in start:
            consumer.seek(position)
        began = time.perf_counter()
        ends = float("inf") if load.count is not None else began + load.seconds
        while batch := consumer.receive_many(BATCH_MESSAGES, load.timeout):
            received += len(batch.values)
            if time.perf_counter() >= ends:
                break
        return Throughput(received, time.perf_counter() - began)


def measure_latencies(mq: mqplug.Client, topic: str, load: Load) -> Latencies:
    """Time single messages from send to receive, each sent when the previous one has arrived."""
    payloads = cycle(load.payloads)
    acknowledged: list[float] = []
    received: list[float] = []
    with _producer(mq, topic, load) as out, _arrivals(mq, topic, load) as arrivals:
        for number in range(-1, load.latencies):
            began = time.perf_counter()
            out.send(next(payloads), timeout=load.timeout)
            stored = time.perf_counter()
            arrived = _next_arrival(arrivals, load.timeout)
            if number >= 0:  # the first one waits for connections
                acknowledged.append(stored - began)
                received.append(arrived - began)
    return Latencies(acknowledged, received)


def _producer(mq: mqplug.Client, topic: str, load: Load) -> AbstractContextManager[mqplug.Producer]:
    return closed_at_end(mq.producer(topic, timeout=load.timeout), load.timeout)


@contextmanager
def _arrivals(mq: mqplug.Client, topic: str, load: Load) -> Iterator[SimpleQueue[float | Exception]]:
    """Yield a queue of the times at which messages arrive. A thread receives them."""
    arrivals: SimpleQueue[float | Exception] = SimpleQueue()

    def receive() -> None:
        try:
            for message in consumer:
                arrived = time.perf_counter()
                _ = message.value
                arrivals.put(arrived)
        except mqplug.Error as error:
            arrivals.put(error)

    with mq.consumer(topic, start=mqplug.LATEST, timeout=load.timeout) as consumer:
        thread = Thread(target=receive, name="mqplug-bench-receiver", daemon=True)
        thread.start()
        try:
            yield arrivals
        finally:
            consumer.stop()
            thread.join(load.timeout)


def _next_arrival(arrivals: SimpleQueue[float | Exception], timeout: float) -> float:
    try:
        found = arrivals.get(timeout=timeout)
    except Empty:
        raise mqplug.Timeout(f"a message did not arrive within {timeout:g} s", operation="bench") from None
    if isinstance(found, Exception):
        raise found
    return found


PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Return the percentiles in milliseconds: for each, a time that this share of them did not exceed."""
    ordered = sorted(seconds)
    return {
        name: round(1000 * ordered[max(ceil(share * len(ordered)), 1) - 1], 4) for name, share in PERCENTILES.items()
    }
