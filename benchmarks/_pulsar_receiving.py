"""Contests of consuming from Pulsar: messages of two sizes, from one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pulsar
import pyarrow as pa

from benchmarks._compiled_parts import MeasuredClients
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import ACK_EACH, ACK_THROUGH, EACH, FIELDS, VALUES, ReceivingLoop, to_arrow
from benchmarks._pulsar_java import JavaTools
from benchmarks._pulsar_sending import partition_name

TIMEOUT_MS = 30_000
MEMBER_OPTIONS = {
    "consumer_type": pulsar.ConsumerType.Failover,
    "start_message_id_inclusive": True,
    "batch_index_ack_enabled": True,
}
"""The options that mqplug passes for the member of a group."""
BATCH_OPTIONS = {"batch_receive_policy": pulsar.ConsumerBatchReceivePolicy(BATCH_MESSAGES, -1, 100)}
RawLoop = Callable[[Any, int], int]
BatchWork = Callable[[Iterator[list[Any]]], int]
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
    reader, member = partial(_reader, client, load), partial(_member, client, load)

    def contest(ours: ReceivingLoop, rivals: Sequence[Side], plain: float, part: float) -> Contest:
        sides = clients.receiving(topic, messages, ours)
        return clients.contest(f"pulsar: consume {ours.kind}; {load.size} B", sides, rivals, plain, part)

    def in_batches(words: str, work: BatchWork) -> list[Side]:
        return [
            member("batch_receive", f"batch_receive() of 1000, {words}", _over(_received, work), **BATCH_OPTIONS),
            reader(f"1000 read_next(), {words}", _over(_read, work)),
        ]

    each = [reader("read_next(), data() and partition_key()", _raw_loop)]
    acked = [
        member("receive", "mqplug's options: receive(), both read, acknowledge()", _raw_ack, **MEMBER_OPTIONS),
        member("as it comes", "its own options: receive(), both read, acknowledge()", _raw_ack),
        *java.consuming(partition_name(topic), messages),
    ]
    words = "a member of a group: batch_receive() of 1000, data() of each, acknowledge() each"
    options = {**BATCH_OPTIONS, "consumer_type": pulsar.ConsumerType.Failover}
    acked_together = [member("batch_receive", words, _raw_ack_batches, **options)]
    return [
        contest(EACH, each, plain=0.6, part=0.8),
        contest(ACK_EACH, acked, plain=0.6, part=0.9),
        contest(ACK_THROUGH, acked_together, plain=0.6, part=0.9),
        contest(VALUES, in_batches("data() of each", _raw_values), plain=0.8, part=1.5),
        contest(FIELDS, in_batches("the getters of the same", _raw_fields), plain=0.8, part=1.5),
        contest(
            to_arrow(list(ARROW_COLUMNS)), in_batches("the getters of six columns, Arrow", _raw_arrow),
            plain=0.7, part=2.5,
        ),
    ]  # fmt: skip


def _reader(client: pulsar.Client, load: Load, words: str, loop: RawLoop) -> Side:
    """Return a side of pulsar-client's readers."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        start = pulsar.MessageId.earliest
        reader = client.create_reader(partition_name(topic_of(load)), start, start_message_id_inclusive=True)
        reader.read_next(TIMEOUT_MS)
        yield lambda: loop(reader, load.messages - 1)
        reader.close()

    return Side("read_next", f"pulsar-client: {words}", prepare)


def _member(client: pulsar.Client, load: Load, name: str, words: str, loop: RawLoop, **options: Any) -> Side:
    """Return a side of pulsar-client's consumers, with a new subscription."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        topic, start = partition_name(topic_of(load)), pulsar.InitialPosition.Earliest
        consumer = client.subscribe(topic, f"raw-{uuid4().hex}", initial_position=start, **options)
        consumer.acknowledge(consumer.receive(TIMEOUT_MS))
        yield lambda: loop(consumer, load.messages - 1)
        consumer.unsubscribe()

    return Side(name, f"pulsar-client: {words}", prepare)


def _over(batches: Callable[[Any, int], Iterator[list[Any]]], work: BatchWork) -> RawLoop:
    """Return a loop that does this work over the batches of a reader or consumer."""
    return lambda source, messages: work(batches(source, messages))


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
    return sum(map(_arrow_rows, batches))


def _arrow_rows(found: list[Any]) -> int:
    times = [each.publish_timestamp() for each in found]
    columns: list[list[Any]] = [
        [each.partition_key().encode() for each in found], [each.data() for each in found],
        [[{"key": name, "value": value.encode()} for name, value in each.properties().items()] for each in found],
        [0] * len(found), [each.event_timestamp() or time for each, time in zip(found, times, strict=True)], times,
    ]  # fmt: skip
    arrays = [pa.array(each, kind) for each, kind in zip(columns, ARROW_COLUMNS.values(), strict=True)]
    return int(pa.record_batch(arrays, names=list(ARROW_COLUMNS)).num_rows)
