"""Contests of the core's cost for a received message, compared with bare loops over the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._synthetic_backend import BATCH_MESSAGES, TOPIC, VALUE_BYTES, SyntheticSource

BARE_LOOP = "a bare loop over the same columns"


def receiving_contests(mq: mqplug.Client, source: SyntheticSource) -> list[Contest]:
    """Return the contests: message by message in four ways, and in batches."""

    def ours(words: str, loop: Callable[[mqplug.Consumer], int], group: str | None = None) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.consumer(TOPIC, group=group, start=mqplug.EARLIEST, until=mqplug.LATEST) as consumer:
                yield lambda: loop(consumer)

        return Side("mqplug", words, prepare)

    def bare(words: str, loop: Callable[[SyntheticSource], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            yield lambda: loop(source)

        return Side("bare loop", words, prepare)

    values = bare(f"{BARE_LOOP}, value read", _bare_values)
    return [
        Contest(
            name="receive: iterate, value read", max_added_cpu_us=0.12,
            ours=ours("for message in consumer: message.value", _iterate), rivals=[values],
        ),
        Contest(
            name="receive: iterate, value and key read", max_added_cpu_us=0.2,
            ours=ours("for message in consumer: message.value, message.key", _iterate_two),
            rivals=[bare(f"{BARE_LOOP}, value and key read", _bare_two)],
        ),
        Contest(
            name="receive: one call a message, value read", max_added_cpu_us=0.25,
            ours=ours("consumer.receive() until None, value read", _receive),
            rivals=[bare(f"{BARE_LOOP}, one call of next() a message, value read", _bare_next)],
        ),
        Contest(
            name="receive: iterate, value read, ack", max_added_cpu_us=0.3,
            ours=ours("for message in consumer: message.value; consumer.ack(message)", _ack, "workers"),
            rivals=[values],
        ),
        Contest(
            name="receive: in batches", max_added_cpu_us=0.02,
            ours=ours("consumer.receive_many(1000).values, looped over", _batches), rivals=[values],
        ),
    ]  # fmt: skip


def _iterate(consumer: mqplug.Consumer) -> int:
    size = 0
    for message in consumer:
        size += len(message.value)  # type: ignore[arg-type]
    return size // VALUE_BYTES


def _iterate_two(consumer: mqplug.Consumer) -> int:
    size = 0
    for message in consumer:
        size += len(message.value)  # type: ignore[arg-type]
        _ = message.key
    return size // VALUE_BYTES


def _receive(consumer: mqplug.Consumer) -> int:
    size = 0
    while (message := consumer.receive(0)) is not None:
        size += len(message.value)  # type: ignore[arg-type]
    return size // VALUE_BYTES


def _ack(consumer: mqplug.Consumer) -> int:
    size = 0
    for message in consumer:
        size += len(message.value)  # type: ignore[arg-type]
        consumer.ack(message)
    return size // VALUE_BYTES


def _batches(consumer: mqplug.Consumer) -> int:
    size = 0
    while batch := consumer.receive_many(BATCH_MESSAGES, 0):
        for value in batch.values:
            size += len(value)  # type: ignore[arg-type]
    return size // VALUE_BYTES


def _bare_values(source: SyntheticSource) -> int:
    size = 0
    for number in range(source.batches):
        for value in source.batch(number).values:
            size += len(value)  # type: ignore[arg-type]
    return size // VALUE_BYTES


def _bare_two(source: SyntheticSource) -> int:
    size = 0
    for number in range(source.batches):
        batch = source.batch(number)
        for value, _ in zip(batch.values, batch.keys, strict=True):
            size += len(value)  # type: ignore[arg-type]
    return size // VALUE_BYTES


def _bare_next(source: SyntheticSource) -> int:
    size = 0
    columns: Iterator[Sequence[bytes | None]] = (source.batch(number).values for number in range(source.batches))
    for column in columns:
        values = iter(column)
        while (value := next(values, None)) is not None:
            size += len(value)
    return size // VALUE_BYTES
