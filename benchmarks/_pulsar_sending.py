"""Contests of producing to Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Semaphore
from typing import Any

import _pulsar
import attrs
import pulsar

from benchmarks._compiled_parts import MeasuredClients
from benchmarks._contests import Contest, Side, TimedMessages, Work
from benchmarks._load import BATCH_MESSAGES, Load
from benchmarks._measured_loops import KEPT, MANY, ONE_BY_ONE, UNWATCHED, SendingLoop, time_each
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

    @property
    def value(self) -> bytes:
        """The value of each message."""
        return b"x" * self.size


def sending_contests(clients: MeasuredClients, client: pulsar.Client, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, many at once, and one by one. Each waits for all."""
    contest = partial(_contest, clients, client, load)
    tools = java.producing(partition_name(load.topic), load.size)
    unwatched, kept = "send_async(value, None), flush()", "send_async() with a callback that keeps the id"
    batch = "1000 send_async() with that callback, then wait for the last report"
    return [
        contest(UNWATCHED, _raw_submit, unwatched, plain=0.4, part=0.95, tools=tools),
        contest(KEPT, _raw_kept, kept, plain=0.65, part=2.0),
        contest(MANY, _raw_many, batch, plain=0.8, part=2.0),
        _one_by_one(clients, client, load),
    ]


def _contest(
    clients: MeasuredClients, client: pulsar.Client, load: SendLoad, ours: SendingLoop, loop: RawLoop, words: str,
    plain: float, part: float, tools: Sequence[Side] = (),
) -> Contest:  # fmt: skip
    fewer = attrs.evolve(load, messages=load.messages // UNBATCHED_SHARE)
    rivals = [
        _raw_side(client, load, "send_async", f"pulsar-client, in batches: {words}", loop, BATCHED_OPTIONS),
        _raw_side(client, fewer, "as it comes", f"pulsar-client, without batches: {words}", loop, USUAL_OPTIONS),
        _raw_side(client, load, "own options", f"pulsar-client, mqplug's options: {words}", loop, OWN_OPTIONS),
        *tools,
    ]
    sides = clients.sending(load.topic, load.value, load.messages, ours)
    return clients.contest(f"pulsar: {ours.kind}; {load.size} B", sides, rivals, plain, part)


def _one_by_one(clients: MeasuredClients, client: pulsar.Client, load: SendLoad) -> Contest:
    """Return the contest of waiting sends, which are judged only by wall time."""
    fewer = attrs.evolve(load, messages=max(100, load.messages // SENT_ONE_BY_ONE))
    rival = _raw_side(client, fewer, "send", "pulsar-client: send(value)", _raw_each, USUAL_OPTIONS)
    sides = clients.sending(fewer.topic, fewer.value, fewer.messages, ONE_BY_ONE)
    name = f"pulsar: {ONE_BY_ONE.kind}; {load.size} B"
    return clients.contest(name, sides, [rival], plain=0.3, part=0.95, by_cpu=False)


def _raw_side(
    client: pulsar.Client, load: SendLoad, name: str, words: str, loop: RawLoop, options: Mapping[str, Any]
) -> Side:
    """Return a side of pulsar-client."""

    @contextmanager
    def prepare() -> Iterator[Work]:
        producer = client.create_producer(partition_name(load.topic), **options)
        producer.send(load.value)
        yield lambda: loop(producer, load.value, load.messages)
        producer.close()

    return Side(name, words, prepare)


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
