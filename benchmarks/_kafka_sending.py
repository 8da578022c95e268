"""Contests of producing to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from confluent_kafka import KafkaError, Message, Producer

from benchmarks._compiled_parts import MeasuredClients, SendingLoop
from benchmarks._contests import Contest, Side, Work
from benchmarks._kafka_java import JavaTools
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import send_batches, submit_all, submit_and_keep

PRODUCER_OPTIONS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
}
"""The options that mqplug passes to confluent-kafka."""
RawLoop = Callable[[Producer, str, bytes, int], int]


def fill_topic(bootstrap: str, topic: str, load: Load) -> None:
    """Produce the messages that the contests of consuming read, in batches to the partitions in turn."""
    producer = Producer({**PRODUCER_OPTIONS, "bootstrap.servers": bootstrap})
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


def sending_contests(clients: MeasuredClients, bootstrap: str, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, and many at once. Each waits until all are stored."""
    value = b"x" * load.size
    each = f"{load.size} B, {load.partitions} partition{'s' * (load.partitions > 1)}"

    def raw(name: str, words: str, loop: RawLoop, options: Mapping[str, Any] = PRODUCER_OPTIONS) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            producer = Producer({**options, "bootstrap.servers": bootstrap})
            producer.produce(load.topic, value)
            producer.flush()
            yield lambda: loop(producer, load.topic, value, load.messages)

        return Side(name, words, prepare)

    def rivals(words: str, loop: RawLoop) -> list[Side]:
        return [
            raw("produce", f"confluent-kafka, mqplug's options: {words}", loop),
            raw("as it comes", f"confluent-kafka, its own options (not idempotent): {words}", loop, {}),
        ]

    def contest(kind: str, loop: SendingLoop, words: str, others: list[Side], plain: float, part: float) -> Contest:
        ours, *without = clients.sending(load.topic, value, load.messages, words, loop)
        return Contest(
            name=f"kafka: {kind}; {each}", ours=ours, rivals=[*others[:1], *without, *others[1:]],
            min_speed_ratios=clients.aims_without_part({"produce": plain}),
            min_cpu_ratios=clients.aims_with_part({"produce": part}),
        )  # fmt: skip

    tools = java.producing(load.topic, load.size, load.messages)
    watched = rivals("produce() with a callback that keeps the offset", _raw_kept)
    many = rivals("1000 produce() with that callback, flush()", _raw_many)
    return [
        contest(
            "submit, unwatched", submit_all, "submit(value), flush()",
            [*rivals("produce(topic, value), flush()", _raw_submit), *tools], plain=0.38, part=0.95,
        ),
        contest("submit, results kept", submit_and_keep, "submit(value), then result() of each", watched, 0.6, 1.0),
        contest("send many", send_batches, "send_many([value] * 1000)", many, 0.95, 1.2),
    ]  # fmt: skip


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


def _raw_many(producer: Producer, topic: str, value: bytes, messages: int) -> int:
    offsets = _Offsets()
    for _ in range(messages // BATCH_MESSAGES):
        for _ in range(BATCH_MESSAGES):
            producer.produce(topic, value, on_delivery=offsets)
        producer.flush()
    return len(offsets.kept)
