"""The measured loops of mqplug: sending and receiving as users write it, with the names of their contests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import attrs

import mqplug
from benchmarks._contests import TimedMessages
from benchmarks._load import BATCH_MESSAGES


@attrs.frozen
class SendingLoop:
    """A loop that sends a value a number of times; the kind of its contests, and its words."""

    kind: str
    words: str
    run: Callable[[mqplug.Producer, bytes, int], int | TimedMessages]


@attrs.frozen
class ReceivingLoop:
    """A loop that receives a number of messages, perhaps as the member of a group."""

    kind: str
    words: str
    run: Callable[[mqplug.Consumer, int], int]
    grouped: bool = False


def submit_all(out: mqplug.Producer, value: bytes, messages: int) -> int:
    """Submit each message, and ignore the results."""
    for _ in range(messages):
        out.submit(value)
    out.flush()
    return messages


def submit_and_keep(out: mqplug.Producer, value: bytes, messages: int) -> int:
    """Submit each message, keep its handle, and then read all results."""
    handles = [out.submit(value) for _ in range(messages)]
    return len([handle.result() for handle in handles])


def send_batches(out: mqplug.Producer, value: bytes, messages: int) -> int:
    """Send batches, and wait for each."""
    for _ in range(messages // BATCH_MESSAGES):
        out.send_many([value] * BATCH_MESSAGES)
    return messages // BATCH_MESSAGES * BATCH_MESSAGES


def send_each(out: mqplug.Producer, value: bytes, messages: int) -> TimedMessages:
    """Send messages one by one, and wait for each."""
    return time_each(lambda: out.send(value), messages)


def time_each(send: Callable[[], object], messages: int) -> TimedMessages:
    """Call a function for each message, and time each call."""
    latencies = []
    for _ in range(messages):
        began = time.perf_counter()
        send()
        latencies.append(time.perf_counter() - began)
    return TimedMessages(latencies)


def receive_each(consumer: mqplug.Consumer, messages: int) -> int:
    """Receive message by message."""
    count = 0
    for message in consumer:
        _ = message.value, message.key
        count += 1
        if count == messages:
            break
    return count


def receive_and_ack_each(consumer: mqplug.Consumer, messages: int) -> int:
    """Receive and ack message by message."""
    count = 0
    for message in consumer:
        _ = message.value, message.key
        consumer.ack(message)
        count += 1
        if count == messages:
            break
    consumer.commit()
    return count


def receive_and_ack_through(consumer: mqplug.Consumer, messages: int) -> int:
    """Receive the values of batches, and ack each batch."""
    count = 0
    while count < messages:
        batch = consumer.receive_many(BATCH_MESSAGES, 30)
        _ = batch.values
        consumer.ack_through(batch[-1])
        count += len(batch)
    consumer.commit()
    return count


def receive_values(consumer: mqplug.Consumer, messages: int) -> int:
    """Receive the values of batches."""
    count = 0
    while count < messages:
        count += len(consumer.receive_many(BATCH_MESSAGES, 30).values)
    return count


def receive_fields(consumer: mqplug.Consumer, messages: int) -> int:
    """Receive all fields of batches."""
    count = 0
    while count < messages:
        batch = consumer.receive_many(BATCH_MESSAGES, 30)
        _ = batch.ids, batch.keys, batch.headers, batch.timestamps, batch.log_times, batch.attempts
        count += len(batch.values)
    return count


def receive_arrow(columns: Sequence[str], consumer: mqplug.Consumer, messages: int) -> int:
    """Receive batches as Arrow."""
    count = 0
    while count < messages:
        count += consumer.receive_many(BATCH_MESSAGES, 30).to_arrow(columns).num_rows
    return count


UNWATCHED = SendingLoop("submit, unwatched", "submit(value), flush()", submit_all)
KEPT = SendingLoop("submit, results kept", "submit(value), then result() of each", submit_and_keep)
MANY = SendingLoop("send many", "send_many([value] * 1000)", send_batches)
ONE_BY_ONE = SendingLoop("send one by one", "send(value)", send_each)

EACH = ReceivingLoop("message by message", "for message in consumer: message.value, message.key", receive_each)
ACK_EACH = ReceivingLoop(
    "message by message, and ack", "value and key read, consumer.ack(message)", receive_and_ack_each, grouped=True
)
ACK_THROUGH = ReceivingLoop(
    "in batches, and ack", "receive_many(1000).values, ack_through(the last)", receive_and_ack_through, grouped=True
)
VALUES = ReceivingLoop("in batches, values", "receive_many(1000).values", receive_values)
FIELDS = ReceivingLoop(
    "in batches, all fields", "receive_many(1000): ids, keys, values, headers, times, attempts", receive_fields
)


def to_arrow(columns: Sequence[str]) -> ReceivingLoop:
    """Return the loop that receives these columns as Arrow."""
    return ReceivingLoop("to Arrow", "receive_many(1000).to_arrow() of six columns", partial(receive_arrow, columns))
