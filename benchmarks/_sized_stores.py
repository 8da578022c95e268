"""RocksMQ stores of a given size: a number of messages in one topic, or a number of topics of 100 messages."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

import mqplug
from benchmarks._load import BATCH_MESSAGES, batch_values
from mqplug.spi import Deadline

MESSAGES_PER_TOPIC = 100
IDLE_CPU_SHARE = 0.04  # of one processor
SETTLE_TIMEOUT_S, CPU_SAMPLE_S = 30, 0.05


@attrs.frozen
class StoreSize:
    """The size of a store: a unit, message or topic, and a count."""

    unit: str
    count: int

    @property
    def name(self) -> str:
        """The size in words."""
        return f"{self.count:,} {self.unit}{'s' * (self.count > 1)}"

    @property
    def topics(self) -> int:
        """The number of topics."""
        return self.count if self.unit == "topic" else 1

    @property
    def messages(self) -> int:
        """The number of messages in each topic."""
        return MESSAGES_PER_TOPIC if self.unit == "topic" else self.count


@attrs.frozen
class SizedStore:
    """An open store of a given size, a consumer of one of its topics, and that topic's first and last timestamp."""

    mq: mqplug.Client
    consumer: mqplug.Consumer
    size: StoreSize
    log: mqplug.Log
    times: tuple[int, int]
    rng: random.Random = attrs.field(factory=lambda: random.Random(1))

    def topic(self) -> str:
        """Return a random topic."""
        return _topic(self.rng.randrange(self.size.topics))

    def position(self) -> mqplug.Position:
        """Return a random position of the consumer's log."""
        return mqplug.Position(self.log, (self.rng.randrange(self.size.messages),))

    def time(self) -> int:
        """Return a random time at which messages were stored."""
        return self.rng.randint(*self.times)


@contextmanager
def open_sized_store(directory: Path, size: StoreSize) -> Iterator[SizedStore]:
    """Open the store of this size; create and fill it on first use."""
    path = directory / f"{size.unit}-{size.count}"
    if not path.exists():
        _fill(path, size)
    with (
        mqplug.connect("rocksmq", path=str(path), sync="os") as mq,
        mq.consumer(_topic(size.topics // 2), start=mqplug.EARLIEST) as consumer,
    ):
        _settle()
        yield SizedStore(mq, consumer, size, consumer.assignment()[0], _times(consumer))


def _topic(number: int) -> str:
    return f"topic-{number}"


def _settle() -> None:
    """Wait until the background work of opening is done, which checks the retention of every topic once."""
    deadline, busy = Deadline(SETTLE_TIMEOUT_S), 1.0
    while busy > IDLE_CPU_SHARE and not deadline.expired:
        before = time.process_time()
        time.sleep(CPU_SAMPLE_S)
        busy = (time.process_time() - before) / CPU_SAMPLE_S


def _times(consumer: mqplug.Consumer) -> tuple[int, int]:
    first = consumer.receive_many(1, 5).log_times[0]
    consumer.seek(mqplug.last(1))
    return first, consumer.receive_many(1, 5).log_times[0]


def _fill(path: Path, size: StoreSize) -> None:
    values = batch_values(128)[: size.messages]
    with mqplug.connect("rocksmq", path=str(path), sync="os") as mq:
        for topic in map(_topic, range(size.topics)):
            mq.create_topic(topic)
            with mq.producer(topic) as out:
                for _ in range(0, size.messages, BATCH_MESSAGES):
                    out.send_many(values)
