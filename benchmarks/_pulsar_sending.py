"""Contests of producing to Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

import _pulsar
import attrs
import pulsar

from benchmarks._compiled_parts import MeasuredClients, SendingLoop
from benchmarks._contests import Contest, Side, Work
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import send_batches, submit_all, submit_and_keep
from benchmarks._pulsar_java import JavaTools

PRODUCER_OPTIONS = {
    "max_pending_messages": 200_000,
    "batching_enabled": True,
    "batching_max_publish_delay_ms": 2,
}
"""The options that mqplug passes to pulsar-client."""
UNBATCHED_SHARE = 10  # without batches, the client is this much slower, and sends this much less in a turn
RawLoop = Callable[[Any, bytes, int], int]


def partition_name(topic: str, partition: int = 0) -> str:
    """Return Pulsar's name of a partition."""
    return f"persistent://public/default/{topic}-partition-{partition}"


def fill_topic(client: pulsar.Client, topic: str, load: Load) -> None:
    """Produce the messages that the contests of consuming read, as batches of up to 1000, flushed one by one."""
    producer = client.create_producer(partition_name(topic), **PRODUCER_OPTIONS)
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
    """Return the contests: results ignored, results read, and many at once. Each waits until all are stored."""
    value = b"x" * load.size

    def raw(
        name: str, words: str, loop: RawLoop, options: Mapping[str, Any] = PRODUCER_OPTIONS, share: int = 1
    ) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            producer = client.create_producer(partition_name(load.topic), **options)
            producer.send(value)
            yield lambda: loop(producer, value, load.messages // share)
            producer.close()

        return Side(name, words, prepare)

    def rivals(words: str, loop: RawLoop) -> list[Side]:
        out_of_the_box = {"block_if_queue_full": True}  # otherwise messages would be refused
        return [
            raw("send_async", f"pulsar-client, mqplug's options: {words}", loop),
            raw("as it comes", f"pulsar-client, its own options (no batches): {words}", loop, out_of_the_box,
                UNBATCHED_SHARE),
        ]  # fmt: skip

    def contest(kind: str, loop: SendingLoop, words: str, others: list[Side], plain: float, part: float) -> Contest:
        ours, *without = clients.sending(load.topic, value, load.messages, words, loop)
        aims = {**clients.aims_without_part({"send_async": plain}), **clients.aims_with_part({"send_async": part})}
        return Contest(
            name=f"pulsar: {kind}; {load.size} B", ours=ours, rivals=[*others[:1], *without, *others[1:]],
            min_cpu_ratios=aims,
        )  # fmt: skip

    tools = java.producing(partition_name(load.topic), load.size)
    watched = rivals("send_async() with a callback that keeps the id", _raw_kept)
    many = rivals("1000 send_async() with that callback, then wait for the last report", _raw_many)
    return [
        contest(
            "submit, unwatched", submit_all, "submit(value), flush()",
            [*rivals("send_async(value, None), flush()", _raw_submit), *tools], plain=0.4, part=0.95,
        ),
        contest("submit, results kept", submit_and_keep, "submit(value), then result() of each", watched, 0.65, 2.0),
        contest("send many", send_batches, "send_many([value] * 1000)", many, 0.8, 2.0),
    ]  # fmt: skip


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
