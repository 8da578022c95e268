"""Contests of producing to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES

VALUE = b"x" * 128
PRODUCER_OPTIONS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
}
"""The options that mqplug passes to confluent-kafka."""


def produce_messages(bootstrap: str, topic: str, messages: int) -> None:
    """Produce the messages that the contests of consuming read."""
    native = Producer({**PRODUCER_OPTIONS, "bootstrap.servers": bootstrap})
    for number in range(messages):
        native.produce(topic, VALUE, b"key-%d" % (number % 100))
    native.flush()


def sending_contests(mq: mqplug.Client, bootstrap: str, topic: str, messages: int) -> list[Contest]:
    """Return the contests: results ignored, results read, and many at once. Each waits until all are stored."""

    def ours(words: str, loop: Callable[[mqplug.Producer, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.producer(topic) as out:
                out.send(VALUE)
                yield lambda: loop(out, messages)

        return Side("mqplug", words, prepare)

    def raw(name: str, words: str, loop: Callable[[Producer, str, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            native = Producer({**PRODUCER_OPTIONS, "bootstrap.servers": bootstrap})
            native.produce(topic, VALUE)
            native.flush()
            yield lambda: loop(native, topic, messages)

        return Side(name, words, prepare)

    return [
        Contest(
            name="kafka: submit, unwatched", min_speed_ratios={"produce": 0.95},
            ours=ours("submit(value), flush()", _submit),
            rivals=[raw("produce", "confluent-kafka: produce(topic, value), flush()", _raw_submit)],
        ),
        Contest(
            name="kafka: submit, results kept", min_speed_ratios={"produce": 0.65},
            ours=ours("submit(value), then result() of each", _kept),
            rivals=[raw("produce", "confluent-kafka: produce() with a callback that keeps the offset", _raw_kept)],
        ),
        Contest(
            name="kafka: send many", min_speed_ratios={"produce": 0.95},
            ours=ours("send_many([value] * 1000)", _many),
            rivals=[raw("produce", "confluent-kafka: 1000 produce() with that callback, flush()", _raw_many)],
        ),
    ]  # fmt: skip


def _submit(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages):
        out.submit(VALUE)
    out.flush()
    return messages


def _kept(out: mqplug.Producer, messages: int) -> int:
    handles = [out.submit(VALUE) for _ in range(messages)]
    return len([handle.result() for handle in handles])


def _many(out: mqplug.Producer, messages: int) -> int:
    for _ in range(messages // BATCH_MESSAGES):
        out.send_many([VALUE] * BATCH_MESSAGES)
    return messages


def _raw_submit(native: Producer, topic: str, messages: int) -> int:
    for number in range(messages):
        native.produce(topic, VALUE)
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


def _raw_kept(native: Producer, topic: str, messages: int) -> int:
    offsets = _Offsets()
    for number in range(messages):
        native.produce(topic, VALUE, on_delivery=offsets)
        if number % BATCH_MESSAGES == 0:
            native.poll(0)
    native.flush()
    return len(offsets.kept)


def _raw_many(native: Producer, topic: str, messages: int) -> int:
    offsets = _Offsets()
    for _ in range(messages // BATCH_MESSAGES):
        for _ in range(BATCH_MESSAGES):
            native.produce(topic, VALUE, on_delivery=offsets)
        native.flush()
    return len(offsets.kept)
