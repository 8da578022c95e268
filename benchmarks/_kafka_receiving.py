"""Contests of consuming from Kafka: messages of two sizes, from one partition and four."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks._compiled_parts import MeasuredClients
from benchmarks._contests import Contest, Side, Work
from benchmarks._kafka_ceiling import counting_side
from benchmarks._kafka_java import JavaTools
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import ACK_EACH, EACH, VALUES, ReceivingLoop, to_arrow

OWN_OPTIONS = {
    "fetch.wait.max.ms": 200,
    "fetch.queue.backoff.ms": 10,
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 65_536,
    "enable.auto.offset.store": False,
}
"""The options that mqplug passes to confluent-kafka. Its defaults are slower (fetch.queue.backoff.ms)."""
ACK_OPTIONS = {"enable.auto.offset.store": False}
"""What a user of confluent-kafka sets to commit only what is handled."""
RawLoop = Callable[[Consumer, int], int]
ARROW_COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}


def topic_of(load: Load) -> str:
    """Return the name of the topic that holds the messages of a load."""
    return f"full-{load.size}-{load.partitions}"


def receiving_contests(clients: MeasuredClients, bootstrap: str, load: Load, java: JavaTools) -> list[Contest]:
    """Return the contests: in batches, message by message, and with acks. The first message is not timed."""
    topic, messages = topic_of(load), load.messages
    raw = partial(_raw_side, bootstrap, load)

    def contest(ours: ReceivingLoop, rivals: Sequence[Side], plain: float, part: float) -> Contest:
        sides = clients.receiving(topic, messages, ours)
        if ours.grouped:
            del sides[1:]  # groups are read without the compiled part
        return clients.contest(f"kafka: consume {ours.kind}; {load.name}", sides, rivals, plain, part)

    ceiling = counting_side({"bootstrap.servers": bootstrap, **_as_text(OWN_OPTIONS)}, topic, load)
    in_batches = [
        raw("consume", "confluent-kafka: consume(1000), value() of each", _raw_batches),
        raw("own options", "the same with mqplug's options", _raw_batches, OWN_OPTIONS),
        ceiling,
        *java.consuming(topic, messages),
    ]
    arrow = [raw("consume", "confluent-kafka: consume(1000), the getters of six columns, Arrow", _raw_arrow), ceiling]
    each = [
        raw("poll", "confluent-kafka: poll() a message, value() and key() read", _raw_poll),
        raw("consume", "confluent-kafka: a loop over consume(1000), value() and key() read", _raw_loop),
    ]
    acked = [
        raw("poll", "confluent-kafka: the same with store_offsets(message)", _raw_ack, ACK_OPTIONS),
        raw("own options", "the same with mqplug's options", _raw_ack, OWN_OPTIONS),
    ]
    return [
        contest(VALUES, in_batches, plain=0.95, part=1.5),
        contest(to_arrow(list(ARROW_COLUMNS)), arrow, plain=0.9, part=2.5),
        contest(EACH, each, plain=0.8, part=1.0),
        contest(ACK_EACH, acked, plain=1.2, part=1.2),
    ]


def _raw_side(
    bootstrap: str, load: Load, name: str, words: str, loop: RawLoop, options: Mapping[str, Any] | None = None
) -> Side:
    """Return a side of confluent-kafka that reads all partitions."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        consumer = Consumer({**(options or {}), "bootstrap.servers": bootstrap, "group.id": f"raw-{uuid4().hex}"})
        consumer.assign([TopicPartition(topic_of(load), partition, 0) for partition in range(load.partitions)])
        assert consumer.poll(30) is not None
        yield lambda: loop(consumer, load.messages - 1)
        consumer.close()

    return Side(name, words, prepare)


def _as_text(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in options.items()}


def _raw_batches(consumer: Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        count += len(list(map(Message.value, consumer.consume(min(BATCH_MESSAGES, messages - count), 30))))
    return count


def _raw_arrow(consumer: Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        found = consumer.consume(min(BATCH_MESSAGES, messages - count), 30)
        headers: list[Any] = [each.headers() or () for each in found]
        columns: list[list[Any]] = [
            list(map(Message.key, found)), list(map(Message.value, found)),
            [[{"key": name, "value": value} for name, value in each] for each in headers],
            list(map(Message.partition, found)), list(map(Message.offset, found)),
            [moment for _, moment in map(Message.timestamp, found)],
        ]  # fmt: skip
        arrays = [pa.array(each, kind) for each, kind in zip(columns, ARROW_COLUMNS.values(), strict=True)]
        count += pa.record_batch(arrays, names=list(ARROW_COLUMNS)).num_rows
    return count


def _raw_poll(consumer: Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        message = consumer.poll(30)
        assert message is not None
        _ = message.value(), message.key()
        count += 1
    return count


def _raw_loop(consumer: Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        for message in consumer.consume(min(BATCH_MESSAGES, messages - count), 30):
            _ = message.value(), message.key()
            count += 1
    return count


def _raw_ack(consumer: Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        message = consumer.poll(30)
        assert message is not None
        _ = message.value(), message.key()
        consumer.store_offsets(message)
        count += 1
    consumer.commit(asynchronous=False)
    return count
