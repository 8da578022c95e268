"""Contests of consuming from Pulsar: messages of two sizes, from one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pulsar
import pyarrow as pa

import mqplug
from benchmarks._compiled_parts import MeasuredClients, ReceivingLoop
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import receive_and_ack_each, receive_and_ack_through, receive_each, receive_values
from benchmarks._pulsar_java import JavaTools
from benchmarks._pulsar_sending import partition_name

TIMEOUT_MS = 30_000
MEMBER_OPTIONS = {
    "consumer_type": pulsar.ConsumerType.Failover,
    "start_message_id_inclusive": True,
    "batch_index_ack_enabled": True,
}
"""The options that mqplug passes for the member of a group."""

ARROW_COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "log_time": pa.timestamp("ms", tz="UTC"),
}


def topic_of(load: Load) -> str:
    """Return the name of the topic that holds the messages of a load."""
    return f"full-{load.size}"


def receiving_contests(clients: MeasuredClients, client: pulsar.Client, load: Load, java: JavaTools) -> list[Contest]:
    """Return the contests: message by message, with acks, and in batches. The first message is not timed."""
    topic, messages = topic_of(load), load.messages

    def reader(words: str, loop: Callable[[Any, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            start = pulsar.MessageId.earliest
            consumer = client.create_reader(partition_name(topic), start, start_message_id_inclusive=True)
            consumer.read_next(TIMEOUT_MS)
            yield lambda: loop(consumer, messages - 1)
            consumer.close()

        return Side("read_next", f"pulsar-client: {words}", prepare)

    def member(name: str, words: str, loop: Callable[[Any, int], int], **options: Any) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            start = pulsar.InitialPosition.Earliest
            consumer = client.subscribe(partition_name(topic), f"raw-{uuid4().hex}", initial_position=start, **options)
            consumer.acknowledge(consumer.receive(TIMEOUT_MS))
            yield lambda: loop(consumer, messages - 1)
            consumer.unsubscribe()

        return Side(name, f"pulsar-client: {words}", prepare)

    def in_batches(words: str, work: Callable[[Iterator[list[Any]]], int]) -> list[Side]:
        policy = pulsar.ConsumerBatchReceivePolicy(BATCH_MESSAGES, -1, 100)
        return [
            reader(f"1000 read_next(), {words}", lambda client_reader, most: work(_read(client_reader, most))),
            member("batch_receive", f"batch_receive() of 1000, {words}",
                   lambda consumer, most: work(_received(consumer, most)), batch_receive_policy=policy),
        ]  # fmt: skip

    def contest(
        kind: str, words: str, loop: ReceivingLoop, rivals: list[Side], plain: float, part: float, grouped: bool = False
    ) -> Contest:
        ours, *without = clients.receiving(topic, messages, words, loop, grouped=grouped)
        judged = rivals[-1].name if rivals[-1].name == "batch_receive" else rivals[0].name
        aims = clients.aim(judged, plain, part)
        return Contest(
            name=f"pulsar: consume {kind}; {load.size} B", ours=ours, rivals=[*rivals, *without],
            min_speed_ratios=aims, min_cpu_ratios=aims,
        )  # fmt: skip

    policy = pulsar.ConsumerBatchReceivePolicy(BATCH_MESSAGES, -1, 100)
    acked_together = [
        member("batch_receive", "a member of a group: batch_receive() of 1000, data() of each, acknowledge() each",
               _raw_ack_batches, batch_receive_policy=policy, consumer_type=pulsar.ConsumerType.Failover),
    ]  # fmt: skip
    acked = [
        member("receive", "mqplug's options: receive(), both read, acknowledge()", _raw_ack, **MEMBER_OPTIONS),
        member("as it comes", "its own options: receive(), both read, acknowledge()", _raw_ack),
        *java.consuming(partition_name(topic), messages),
    ]
    fields = "receive_many(1000): ids, keys, values, headers, times, attempts"
    return [
        contest(
            "message by message", "for message in consumer: message.value, message.key", receive_each,
            [reader("read_next(), data() and partition_key()", _raw_loop)], plain=0.6, part=0.8,
        ),
        contest(
            "message by message, and ack", "value and key read, consumer.ack(message)", receive_and_ack_each,
            acked, plain=0.6, part=0.9, grouped=True,
        ),
        contest(
            "in batches, and ack", "receive_many(1000).values, ack_through(the last)", receive_and_ack_through,
            acked_together, plain=0.6, part=0.9, grouped=True,
        ),
        contest(
            "in batches, values", "receive_many(1000).values", receive_values,
            in_batches("data() of each", _raw_values), plain=0.8, part=1.5,
        ),
        contest(
            "in batches, all fields", fields, _fields,
            in_batches("the getters of the same", _raw_fields), plain=0.8, part=1.5,
        ),
        contest(
            "to Arrow", "receive_many(1000).to_arrow() of six columns", _arrow,
            in_batches("the getters of six columns, Arrow", _raw_arrow), plain=0.7, part=2.5,
        ),
    ]  # fmt: skip


def _fields(consumer: mqplug.Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        batch = consumer.receive_many(BATCH_MESSAGES, 30)
        _ = batch.ids, batch.keys, batch.headers, batch.timestamps, batch.log_times, batch.attempts
        count += len(batch.values)
    return count


def _arrow(consumer: mqplug.Consumer, messages: int) -> int:
    count = 0
    while count < messages:
        count += consumer.receive_many(BATCH_MESSAGES, 30).to_arrow(list(ARROW_COLUMNS)).num_rows
    return count


def _raw_loop(reader: Any, messages: int) -> int:
    for _ in range(messages):
        message = reader.read_next(TIMEOUT_MS)
        _ = message.data(), message.partition_key()
    return messages


def _raw_ack(consumer: Any, messages: int) -> int:
    for _ in range(messages):
        message = consumer.receive(TIMEOUT_MS)
        _ = message.data(), message.partition_key()
        consumer.acknowledge(message)
    return messages


def _raw_ack_batches(consumer: Any, messages: int) -> int:
    count = 0
    for found in _received(consumer, messages):
        for message in found:
            message.data()
            consumer.acknowledge(message)
        count += len(found)
    return count


def _read(reader: Any, messages: int) -> Iterator[list[Any]]:
    """Yield the messages in lists of up to 1000."""
    for first in range(0, messages, BATCH_MESSAGES):
        yield [reader.read_next(TIMEOUT_MS) for _ in range(min(BATCH_MESSAGES, messages - first))]


def _received(consumer: Any, messages: int) -> Iterator[list[Any]]:
    count = 0
    while count < messages:
        found = consumer.batch_receive()
        yield found
        count += len(found)


def _raw_values(batches: Iterator[list[Any]]) -> int:
    return sum(len([each.data() for each in found]) for found in batches)


def _raw_fields(batches: Iterator[list[Any]]) -> int:
    count = 0
    for found in batches:
        _ = (
            [each.message_id() for each in found], [each.partition_key() for each in found],
            [each.properties() for each in found], [each.event_timestamp() for each in found],
            [each.publish_timestamp() for each in found], [each.redelivery_count() for each in found],
        )  # fmt: skip
        count += len([each.data() for each in found])
    return count


def _raw_arrow(batches: Iterator[list[Any]]) -> int:
    return sum(map(_to_arrow, batches))


def _to_arrow(found: list[Any]) -> int:
    times = [each.publish_timestamp() for each in found]
    columns: list[list[Any]] = [
        [each.partition_key().encode() for each in found], [each.data() for each in found],
        [[{"key": name, "value": value.encode()} for name, value in each.properties().items()] for each in found],
        [0] * len(found), [each.event_timestamp() or time for each, time in zip(found, times, strict=True)], times,
    ]  # fmt: skip
    arrays = [pa.array(each, kind) for each, kind in zip(columns, ARROW_COLUMNS.values(), strict=True)]
    return int(pa.record_batch(arrays, names=list(ARROW_COLUMNS)).num_rows)
