"""Contests of consuming from Kafka: messages of two sizes, from one partition and four."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

import mqplug
from benchmarks._compiled_parts import MeasuredClients
from benchmarks._contests import Contest, Side, Work
from benchmarks._kafka_ceiling import counting_side
from benchmarks._kafka_java import JavaTools
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import receive_and_ack_each, receive_each, receive_values

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

    def raw(
        name: str, words: str, loop: Callable[[Consumer, int], int], options: Mapping[str, Any] | None = None
    ) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            consumer = Consumer({**(options or {}), "bootstrap.servers": bootstrap, "group.id": f"raw-{uuid4().hex}"})
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(load.partitions)])
            assert consumer.poll(30) is not None
            yield lambda: loop(consumer, messages - 1)
            consumer.close()

        return Side(name, words, prepare)

    in_batches, *without = clients.receiving(topic, messages, "receive_many(1000).values", receive_values)
    to_arrow, *arrow_without = clients.receiving(
        topic, messages, "receive_many(1000).to_arrow() of six columns", _arrow_batches
    )
    each, *each_without = clients.receiving(
        topic, messages, "for message in consumer: message.value, message.key", receive_each
    )
    acked, *_ = clients.receiving(  # groups are read by the plain client
        topic, messages, "value and key read, consumer.ack(message)", receive_and_ack_each, grouped=True
    )
    ceiling = counting_side({"bootstrap.servers": bootstrap, **_as_text(OWN_OPTIONS)}, topic, load)
    return [
        Contest(
            name=f"kafka: consume in batches; {load.name}", ours=in_batches,
            rivals=[
                raw("consume", "confluent-kafka: consume(1000), value() of each", _raw_batches),
                raw("own options", "the same with mqplug's options", _raw_batches, OWN_OPTIONS),
                *without, ceiling, *java.consuming(topic, messages),
            ],
            min_speed_ratios=clients.aim("consume", 0.95, 1.5), min_cpu_ratios=clients.aim("consume", 0.95, 1.5),
        ),
        Contest(
            name=f"kafka: consume to Arrow; {load.name}", ours=to_arrow,
            rivals=[
                raw("consume", "confluent-kafka: consume(1000), the getters of six columns, Arrow", _raw_arrow),
                *arrow_without, ceiling,
            ],
            min_speed_ratios=clients.aim("consume", 0.9, 2.5), min_cpu_ratios=clients.aim("consume", 0.9, 2.5),
        ),
        Contest(
            name=f"kafka: consume message by message; {load.name}", ours=each,
            rivals=[
                raw("poll", "confluent-kafka: poll() a message, value() and key() read", _raw_poll),
                raw("consume", "confluent-kafka: a loop over consume(1000), value() and key() read", _raw_loop),
                *each_without,
            ],
            min_speed_ratios=clients.aim("poll", 0.8, 1.0), min_cpu_ratios=clients.aim("poll", 0.8, 1.0),
        ),
        Contest(
            name=f"kafka: consume message by message, and ack; {load.name}", ours=acked,
            rivals=[
                raw("poll", "confluent-kafka: the same with store_offsets(message)", _raw_ack, ACK_OPTIONS),
                raw("own options", "the same with mqplug's options", _raw_ack, OWN_OPTIONS),
            ],
            min_speed_ratios={"poll": 1.2}, min_cpu_ratios={"poll": 1.2},
        ),
    ]  # fmt: skip


def _as_text(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in options.items()}


def _arrow_batches(consumer: mqplug.Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        count += consumer.receive_many(BATCH_MESSAGES, 30).to_arrow(list(ARROW_COLUMNS)).num_rows
    return count


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
