"""The measured loops of mqplug: sending and receiving as users write it."""

from __future__ import annotations

import time
from collections.abc import Callable

import mqplug
from benchmarks._contests import TimedMessages
from benchmarks._load import BATCH_MESSAGES


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
