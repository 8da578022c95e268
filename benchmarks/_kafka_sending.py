"""Contests of producing to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from confluent_kafka import KafkaError, Message, Producer

from benchmarks._compiled_parts import MeasuredClients, SendingLoop
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._kafka_java import JavaTools
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import send_batches, send_each, submit_all, submit_and_keep, time_each

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


def sending_contests(clients: MeasuredClients, bootstrap: str, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, many at once, and one by one. Each waits for all."""
    value = b"x" * load.size
    each = f"{load.size} B, {load.partitions} partition{'s' * (load.partitions > 1)}"

    def raw(name: str, words: str, loop: RawLoop, options: Mapping[str, Any], messages: int) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            producer = Producer({**options, "bootstrap.servers": bootstrap})
            producer.produce(load.topic, value)
            producer.flush()
            yield lambda: loop(producer, load.topic, value, messages)

        return Side(name, words, prepare)

    def contest(
        kind: str, loop: SendingLoop, words: str, raw_loop: RawLoop, raw_words: str, plain: float, part: float,
        tools: Sequence[Side] = (), messages: int = load.messages,
    ) -> Contest:  # fmt: skip
        ours, *without = clients.sending(load.topic, value, messages, words, loop)
        usual = raw("produce", f"confluent-kafka, idempotent: {raw_words}", raw_loop, USUAL_OPTIONS, messages)
        own = raw("own options", f"the same with mqplug's options: {raw_words}", raw_loop, OWN_OPTIONS, messages)
        aims = clients.aim("produce", plain, part)
        return Contest(
            name=f"kafka: {kind}; {each}", ours=ours, rivals=[usual, *without, own, *tools],
            min_speed_ratios=aims, min_cpu_ratios=aims,
        )  # fmt: skip

    return [
        contest(
            "submit, unwatched", submit_all, "submit(value), flush()", _raw_submit, "produce(topic, value), flush()",
            0.38, 0.95, java.producing(load.topic, load.size, load.messages),
        ),
        contest(
            "submit, results kept", submit_and_keep, "submit(value), then result() of each",
            _raw_kept, "produce() with a callback that keeps the offset", 0.38, 1.0,
        ),
        contest(
            "send many", send_batches, "send_many([value] * 1000)",
            _raw_many, "1000 produce() with that callback, flush()", 0.6, 1.2,
        ),
        contest(
            "send one by one", send_each, "send(value)", _raw_each, "produce() with that callback, flush()",
            0.6, 0.95, messages=max(100, load.messages // SENT_ONE_BY_ONE),
        ),
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
