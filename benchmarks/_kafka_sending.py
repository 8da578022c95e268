"""Contests of producing to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
from confluent_kafka import KafkaError, Message, Producer

from benchmarks._compiled_parts import MeasuredClients
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._kafka_java import JavaTools
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import KEPT, MANY, ONE_BY_ONE, UNWATCHED, SendingLoop, time_each

USUAL_OPTIONS = {"enable.idempotence": True}
"""What a user of confluent-kafka sets for the same promise. It implies ``acks=all``."""
OWN_OPTIONS = {
    **USUAL_OPTIONS, "linger.ms": 0, "max.in.flight": 1, "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
}  # fmt: skip
"""The options that mqplug passes to confluent-kafka."""
SENT_ONE_BY_ONE = 50  # a waiting send takes this much longer than an unwatched one
RawLoop = Callable[[Producer, str, bytes, int], int | TimedMessages]


def fill_topic(bootstrap: str, topic: str, load: Load) -> None:
    """Produce the messages that the contests of consuming read, in batches to the partitions in turn."""
    producer = Producer({**OWN_OPTIONS, "bootstrap.servers": bootstrap})
    for batch in range(load.batches):
        for number, value in enumerate(load.values):
            producer.produce(topic, value, b"key-%d" % (number % 100), batch % load.partitions)
        producer.flush()


@attrs.frozen
class SendLoad:
    """The size of the messages that the contests send, the partitions of their topic, and how many they send."""

    size: int
    partitions: int
    messages: int

    @property
    def topic(self) -> str:
        """The topic that receives the messages."""
        return f"sink-{self.partitions}"

    @property
    def value(self) -> bytes:
        """The value of each message."""
        return b"x" * self.size

    @property
    def name(self) -> str:
        """The size and the number of partitions, for names of contests."""
        return f"{self.size} B, {self.partitions} partition{'s' * (self.partitions > 1)}"


def sending_contests(clients: MeasuredClients, bootstrap: str, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, many at once, and one by one. Each waits for all."""
    contest = partial(_contest, clients, bootstrap)
    fewer = attrs.evolve(load, messages=max(100, load.messages // SENT_ONE_BY_ONE))
    tools = java.producing(load.topic, load.size, load.messages)
    kept, batch = "produce() with a callback that keeps the offset", "1000 produce() with that callback, flush()"
    each = "produce() with that callback, flush()"
    return [
        contest(load, UNWATCHED, _raw_submit, "produce(topic, value), flush()", plain=0.38, part=0.95, tools=tools),
        contest(load, KEPT, _raw_kept, kept, plain=0.38, part=1.0),
        contest(load, MANY, _raw_many, batch, plain=0.6, part=1.2),
        contest(fewer, ONE_BY_ONE, _raw_each, each, plain=0.6, part=0.95),
    ]


def _contest(
    clients: MeasuredClients, bootstrap: str, load: SendLoad, ours: SendingLoop, loop: RawLoop, words: str,
    plain: float, part: float, tools: Sequence[Side] = (),
) -> Contest:  # fmt: skip
    rivals = [
        _raw_side(bootstrap, load, "produce", f"confluent-kafka, idempotent: {words}", loop, USUAL_OPTIONS),
        _raw_side(bootstrap, load, "own options", f"the same with mqplug's options: {words}", loop, OWN_OPTIONS),
        *tools,
    ]
    sides = clients.sending(load.topic, load.value, load.messages, ours)
    return clients.contest(f"kafka: {ours.kind}; {load.name}", sides, rivals, plain, part)


def _raw_side(bootstrap: str, load: SendLoad, name: str, words: str, loop: RawLoop, options: Mapping[str, Any]) -> Side:
    """Return a side of confluent-kafka."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        producer = Producer({**options, "bootstrap.servers": bootstrap})
        producer.produce(load.topic, load.value)
        producer.flush()
        yield lambda: loop(producer, load.topic, load.value, load.messages)

    return Side(name, words, prepare)


def _raw_submit(producer: Producer, topic: str, value: bytes, messages: int) -> int:
    for number in range(messages):
        producer.produce(topic, value)
        if number % BATCH_MESSAGES == 0:
            producer.poll(0)
    producer.flush()
    return messages


class _Offsets:
    """A delivery callback that keeps the offsets."""

    def __init__(self) -> None:
        self.kept: list[int | None] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.kept.append(message.offset())


def _raw_kept(producer: Producer, topic: str, value: bytes, messages: int) -> int:
    offsets = _Offsets()
    for number in range(messages):
        producer.produce(topic, value, on_delivery=offsets)
        if number % BATCH_MESSAGES == 0:
            producer.poll(0)
    producer.flush()
    return len(offsets.kept)


def _raw_each(producer: Producer, topic: str, value: bytes, messages: int) -> TimedMessages:
    offsets = _Offsets()

    def send() -> None:
        producer.produce(topic, value, on_delivery=offsets)
        producer.flush()

    return time_each(send, messages)


def _raw_many(producer: Producer, topic: str, value: bytes, messages: int) -> int:
    offsets = _Offsets()
    for _ in range(messages // BATCH_MESSAGES):
        for _ in range(BATCH_MESSAGES):
            producer.produce(topic, value, on_delivery=offsets)
        producer.flush()
    return len(offsets.kept)
