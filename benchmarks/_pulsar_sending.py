"""Contests of producing to Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

import _pulsar
import attrs
import pulsar

from benchmarks._compiled_parts import MeasuredClients, SendingLoop
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import send_batches, send_each, submit_all, submit_and_keep, time_each
from benchmarks._pulsar_java import JavaTools

USUAL_OPTIONS = {"block_if_queue_full": True}
"""What a user of pulsar-client needs so that no message is refused. It sends each message by itself."""
BATCHED_OPTIONS = {**USUAL_OPTIONS, "batching_enabled": True}
"""The same in batches, which is faster."""
OWN_OPTIONS = {"max_pending_messages": 200_000, "batching_enabled": True, "batching_max_publish_delay_ms": 2}
"""The options that mqplug passes to pulsar-client."""
SENT_ONE_BY_ONE = 50  # a waiting send takes this much longer than an unwatched one
UNBATCHED_SHARE = 10  # without batches, the client is this much slower, and sends this much less in a turn
RawLoop = Callable[[Any, bytes, int], int | TimedMessages]


def partition_name(topic: str, partition: int = 0) -> str:
    """Return Pulsar's name of a partition."""
    return f"persistent://public/default/{topic}-partition-{partition}"


def fill_topic(client: pulsar.Client, topic: str, load: Load) -> None:
    """Produce the messages that the contests of consuming read, as batches of up to 1000, flushed one by one."""
    producer = client.create_producer(partition_name(topic), **OWN_OPTIONS)
    for _ in range(load.batches):
        for number, value in enumerate(load.values):
            producer.send_async(value, None, partition_key=f"key-{number % 100}")
        producer.flush()
    producer.close()


@attrs.frozen
class SendLoad:
    """The size of the messages that the contests send, and how many they send."""

    size: int
    messages: int

    @property
    def topic(self) -> str:
        """The topic that receives the messages."""
        return f"sink-{self.size}"


def sending_contests(clients: MeasuredClients, client: pulsar.Client, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, many at once, and one by one. Each waits for all."""
    value = b"x" * load.size

    def raw(name: str, words: str, loop: RawLoop, options: Mapping[str, Any], messages: int) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            producer = client.create_producer(partition_name(load.topic), **options)
            producer.send(value)
            yield lambda: loop(producer, value, messages)
            producer.close()

        return Side(name, words, prepare)

    def contest(
        kind: str, loop: SendingLoop, words: str, raw_loop: RawLoop, raw_words: str, plain: float, part: float,
        tools: Sequence[Side] = (),
    ) -> Contest:  # fmt: skip
        ours, *without = clients.sending(load.topic, value, load.messages, words, loop)
        fewer = load.messages // UNBATCHED_SHARE
        aims = clients.aim("send_async", plain, part)
        return Contest(
            name=f"pulsar: {kind}; {load.size} B", ours=ours,
            rivals=[
                raw("send_async", f"pulsar-client, in batches: {raw_words}", raw_loop, BATCHED_OPTIONS, load.messages),
                raw("as it comes", f"pulsar-client, without batches: {raw_words}", raw_loop, USUAL_OPTIONS, fewer),
                *without,
                raw("own options", f"pulsar-client, mqplug's options: {raw_words}", raw_loop, OWN_OPTIONS,
                    load.messages),
                *tools,
            ],
            min_speed_ratios=aims, min_cpu_ratios=aims,
        )  # fmt: skip

    def one_by_one() -> Contest:
        messages = max(100, load.messages // SENT_ONE_BY_ONE)
        ours, *without = clients.sending(load.topic, value, messages, "send(value)", send_each)
        rival = raw("send", "pulsar-client: send(value)", _raw_each, USUAL_OPTIONS, messages)
        return Contest(
            name=f"pulsar: send one by one; {load.size} B", ours=ours, rivals=[rival, *without],
            min_speed_ratios=clients.aim("send", 0.3, 0.95),
        )  # fmt: skip

    return [
        contest(
            "submit, unwatched", submit_all, "submit(value), flush()",
            _raw_submit, "send_async(value, None), flush()", 0.4, 0.95,
            java.producing(partition_name(load.topic), load.size),
        ),
        contest(
            "submit, results kept", submit_and_keep, "submit(value), then result() of each",
            _raw_kept, "send_async() with a callback that keeps the id", 0.65, 2.0,
        ),
        contest(
            "send many", send_batches, "send_many([value] * 1000)",
            _raw_many, "1000 send_async() with that callback, then wait for the last report", 0.8, 2.0,
        ),
        one_by_one(),
    ]  # fmt: skip


def _raw_each(producer: Any, value: bytes, messages: int) -> TimedMessages:
    return time_each(lambda: producer.send(value), messages)


def _raw_submit(producer: Any, value: bytes, messages: int) -> int:
    for _ in range(messages):
        producer.send_async(value, None)
    producer.flush()
    return messages


class _Ids:
    """A callback that keeps the ids. ``wait`` waits until all messages are reported as stored."""

    def __init__(self, messages: int) -> None:
        self.kept: list[Any] = []
        self._messages = messages
        self._complete = Semaphore(0)

    def __call__(self, result: Any, message_id: Any) -> None:
        if result == _pulsar.Result.Ok:
            self.kept.append(message_id)
        if len(self.kept) == self._messages:
            self._complete.release()

    def wait(self) -> None:
        assert self._complete.acquire(timeout=60)


def _raw_kept(producer: Any, value: bytes, messages: int) -> int:
    ids = _Ids(messages)
    for _ in range(messages):
        producer.send_async(value, ids)
    ids.wait()
    return len(ids.kept)


def _raw_many(producer: Any, value: bytes, messages: int) -> int:
    for _ in range(batches := max(1, messages // BATCH_MESSAGES)):
        ids = _Ids(BATCH_MESSAGES)
        for _ in range(BATCH_MESSAGES):
            producer.send_async(value, ids)
        ids.wait()
    return batches * BATCH_MESSAGES
