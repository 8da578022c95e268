"""Contests of the core's cost for a sent message, compared with bare loops over the same driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._synthetic_backend import BATCH_MESSAGES, TOPIC, VALUE_BYTES, SyntheticProducer
from mqplug.spi import Headers, Numbers

VALUE = b"x" * VALUE_BYTES


class BareRecord:
    """The minimum that a driver needs of a message being sent. The bare loop keeps its result here."""

    __slots__ = ("headers", "key", "partition", "place", "timestamp", "topic", "value")

    def __init__(self, value: bytes, key: bytes | None = None) -> None:
        self.topic = TOPIC
        self.partition = 0
        self.value: bytes | None = value
        self.key = key
        self.headers: Headers = ()
        self.timestamp: int | None = None
        self.place: tuple[mqplug.Log, Numbers, Numbers] | None = None

    def stored(self, log: mqplug.Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self.place = (log, coordinates, detail)

    def failed(self, error: mqplug.Error) -> None:
        raise error

    unknown = failed


class BareRun:
    """The minimum that a driver needs of a batch being sent."""

    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Headers] | None = None
    timestamps: Sequence[int | None] | None = None
    size = BATCH_MESSAGES * len(VALUE)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.topic, self.partition, self.values = TOPIC, 0, values
        self.place: tuple[mqplug.Log, Sequence[Numbers]] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ends(self) -> Sequence[int]:
        return list(accumulate(len(value or b"") for value in self.values))

    def arrow(self, names: Sequence[str]) -> Mapping[str, Any]:
        return {}

    def sendings(self) -> Sequence[BareRecord]:
        return [BareRecord(value or b"") for value in self.values]

    def stored(self, log: mqplug.Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None = None) -> None:
        self.place = (log, coordinates)

    def failed(self, error: mqplug.Error) -> None:
        raise error

    unknown = failed


def sending_contests(mq: mqplug.Client, messages: int) -> list[Contest]:
    """Return the contests: without waiting, with waiting, and many at once."""

    def ours(words: str, loop: Callable[[mqplug.Producer, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.producer(TOPIC) as out:
                yield lambda: loop(out, messages)

        return Side("mqplug", words, prepare)

    def bare(words: str, loop: Callable[[SyntheticProducer, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            yield lambda: loop(SyntheticProducer(), messages)

        return Side("bare loop", words, prepare)

    unwatched = bare("driver.send((record,)), a new record each", _bare)
    kept = bare("the same; the records are kept", _bare_kept)
    return [
        Contest(
            name="send: submit, unwatched", max_added_cpu_us=0.5,
            ours=ours("out.submit(value)", _submit), rivals=[unwatched],
        ),
        Contest(
            name="send: submit with a key", max_added_cpu_us=1.0,
            ours=ours("out.submit(value, key=key)", _keyed), rivals=[unwatched],
        ),
        Contest(
            name="send: submit, handles kept", max_added_cpu_us=0.5,
            ours=ours("handles.append(out.submit(value))", _handles), rivals=[kept],
        ),
        Contest(
            name="send: submit, results kept", max_added_cpu_us=0.8,
            ours=ours("out.submit(value), then result() of each", _kept), rivals=[kept],
        ),
        Contest(
            name="send: and wait", max_added_cpu_us=1.5, ours=ours("out.send(value)", _send), rivals=[unwatched],
        ),
        Contest(
            name="send: many", max_added_cpu_us=0.1, ours=ours("out.send_many([value] * 1000)", _many),
            rivals=[bare("driver.send_run(batch of 1000), a new list each", _bare_many)],
        ),
        Contest(
            name="send: many records", max_added_cpu_us=0.4,
            ours=ours("out.send_many([Record(value, key=key), ...])", _many_records),
            rivals=[bare("driver.send_run(batch of 1000), a new list each", _bare_many)],
        ),
    ]  # fmt: skip


def _bare(driver: SyntheticProducer, messages: int) -> int:
    for _ in range(messages):
        driver.send((BareRecord(VALUE),))
    return messages


def _bare_kept(driver: SyntheticProducer, messages: int) -> int:
    kept = []
    for _ in range(messages):
        record = BareRecord(VALUE)
        kept.append(record)
        driver.send((record,))
    return len(kept)


def _bare_many(driver: SyntheticProducer, messages: int) -> int:
    for _ in range(messages // BATCH_MESSAGES):
        driver.send_run(BareRun([VALUE] * BATCH_MESSAGES))
    return messages


def _submit(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages):
        out.submit(VALUE)
    return messages


def _keyed(out: mqplug.Producer, messages: int) -> int:
    keys = [b"customer-%d" % number for number in range(100)]
    for number in range(messages):
        out.submit(VALUE, key=keys[number % 100])
    return messages


def _handles(out: mqplug.Producer, messages: int) -> int:
    return len([out.submit(VALUE) for _ in range(messages)])


def _kept(out: mqplug.Producer, messages: int) -> int:
    handles = [out.submit(VALUE) for _ in range(messages)]
    for handle in handles:
        handle.result()
    return messages


def _send(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages):
        out.send(VALUE)
    return messages


def _many(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages // BATCH_MESSAGES):
        out.send_many([VALUE] * BATCH_MESSAGES)
    return messages


def _many_records(out: mqplug.Producer, messages: int) -> int:
    keys = [b"customer-%d" % number for number in range(100)]
    for _ in range(messages // BATCH_MESSAGES):
        out.send_many([mqplug.Record(VALUE, key=keys[number % 100]) for number in range(BATCH_MESSAGES)])
    return messages
