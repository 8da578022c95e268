"""Stores of many sizes: so many messages in one topic, or so many topics of a hundred messages."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

import mqplug
from benchmarks._load import MANY, some_values

HUNDRED = 100
IDLE = 0.04  # of a processor


@attrs.frozen
class Size:
    """One store: what it counts, and how many of them."""

    unit: str
    count: int

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.count:,} {self.unit}{'s' * (self.count > 1)}"

    @property
    def topics(self) -> int:
        """How many it has."""
        return self.count if self.unit == "topic" else 1

    @property
    def messages(self) -> int:
        """How many each topic has."""
        return HUNDRED if self.unit == "topic" else self.count


@attrs.frozen
class Place:
    """A store that is open, with a consumer of one of its topics, and when the messages of that were stored."""

    mq: mqplug.Client
    consumer: mqplug.Consumer
    size: Size
    log: mqplug.Log
    times: tuple[int, int]
    rng: random.Random = attrs.field(factory=lambda: random.Random(1))

    def topic(self) -> str:
        """One of its topics."""
        return _topic(self.rng.randrange(self.size.topics))

    def position(self) -> mqplug.Position:
        """One of its positions."""
        return mqplug.Position(self.log, (self.rng.randrange(self.size.messages),))

    def time(self) -> int:
        """A time at which messages were stored."""
        return self.rng.randint(*self.times)


@contextmanager
def opened(directory: Path, size: Size) -> Iterator[Place]:
    """Open a store of this size, which is filled when it is first asked for."""
    path = directory / f"{size.unit}-{size.count}"
    if not path.exists():
        _fill(path, size)
    with (
        mqplug.connect("rocksmq", path=str(path), sync="os") as mq,
        mq.consumer(_topic(size.topics // 2), start=mqplug.EARLIEST) as consumer,
    ):
        _settle()
        yield Place(mq, consumer, size, consumer.assignment()[0], _times(consumer))


def _topic(number: int) -> str:
    return f"topic-{number}"


def _settle() -> None:
    """Wait until what opening began in the background is over: it looks once at the retention of every topic."""
    end, busy = time.monotonic() + 30, 1.0
    while busy > IDLE and time.monotonic() < end:
        before = time.process_time()
        time.sleep(0.05)
        busy = (time.process_time() - before) / 0.05


def _times(consumer: mqplug.Consumer) -> tuple[int, int]:
    first = consumer.receive_many(1, 5).log_times[0]
    consumer.seek(mqplug.last(1))
    return first, consumer.receive_many(1, 5).log_times[0]


def _fill(path: Path, size: Size) -> None:
    values = some_values(128)[: size.messages]
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        for topic in map(_topic, range(size.topics)):
            mq.create_topic(topic)
            with mq.producer(topic) as out:
                for _ in range(0, size.messages, MANY):
                    out.send_many(values)
