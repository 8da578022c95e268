"""Contests of producing to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
from confluent_kafka import KafkaError, Message, Producer

import mqplug
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
    """Produce the messages that the contests of consuming read, the batches to the partitions in turn."""
    native = Producer({**PRODUCER_OPTIONS, "bootstrap.servers": bootstrap})
    for batch in range(load.batches):
        for number, value in enumerate(load.values):
            native.produce(topic, value, b"key-%d" % (number % 100), batch % load.partitions)
        native.flush()


@attrs.frozen
class SendLoad:
    """The size of the messages that the contests send, the partitions of their topic, and how many they send."""

    size: int
    partitions: int
    messages: int

    @property
    def topic(self) -> str:
        """The topic that the messages go to."""
        return f"sink-{self.partitions}"


def sending_contests(mq: mqplug.Client, bootstrap: str, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, and many at once. Each waits until all are stored."""
    value = b"x" * load.size

    def ours(words: str, loop: Callable[[mqplug.Producer, bytes, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.producer(load.topic) as out:
                out.send(value)
                yield lambda: loop(out, value, load.messages)

        return Side("mqplug", words, prepare)

    def raw(name: str, words: str, loop: RawLoop, options: Mapping[str, Any] = PRODUCER_OPTIONS) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            native = Producer({**options, "bootstrap.servers": bootstrap})
            native.produce(load.topic, value)
            native.flush()
            yield lambda: loop(native, load.topic, value, load.messages)

        return Side(name, words, prepare)

    def rivals(words: str, loop: RawLoop) -> list[Side]:
        return [
            raw("produce", f"confluent-kafka, mqplug's options: {words}", loop),
            raw("as it comes", f"confluent-kafka, its own options (not idempotent): {words}", loop, {}),
        ]

    each = f"{load.size} B, {load.partitions} partition{'s' * (load.partitions > 1)}"
    return [
        Contest(
            name=f"kafka: submit, unwatched; {each}", min_speed_ratios={"produce": 0.38},
            ours=ours("submit(value), flush()", submit_all),
            rivals=[
                *rivals("produce(topic, value), flush()", _raw_submit),
                *java.producing(load.topic, load.size, load.messages),
            ],
        ),
        Contest(
            name=f"kafka: submit, results kept; {each}", min_speed_ratios={"produce": 0.6},
            ours=ours("submit(value), then result() of each", submit_and_keep),
            rivals=rivals("produce() with a callback that keeps the offset", _raw_kept),
        ),
        Contest(
            name=f"kafka: send many; {each}", min_speed_ratios={"produce": 0.95},
            ours=ours("send_many([value] * 1000)", send_batches),
            rivals=rivals("1000 produce() with that callback, flush()", _raw_many),
        ),
    ]  # fmt: skip


def _raw_submit(native: Producer, topic: str, value: bytes, messages: int) -> int:
    for number in range(messages):
        native.produce(topic, value)
        if number % BATCH_MESSAGES == 0:
            native.poll(0)
    native.flush()
    return messages


class _Offsets:
    """A delivery callback that keeps the offsets."""

    def __init__(self) -> None:
        self.kept: list[int | None] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.kept.append(message.offset())


def _raw_kept(native: Producer, topic: str, value: bytes, messages: int) -> int:
    offsets = _Offsets()
    for number in range(messages):
        native.produce(topic, value, on_delivery=offsets)
        if number % BATCH_MESSAGES == 0:
            native.poll(0)
    native.flush()
    return len(offsets.kept)


def _raw_many(native: Producer, topic: str, value: bytes, messages: int) -> int:
    offsets = _Offsets()
    for _ in range(messages // BATCH_MESSAGES):
        for _ in range(BATCH_MESSAGES):
            native.produce(topic, value, on_delivery=offsets)
        native.flush()
    return len(offsets.kept)
