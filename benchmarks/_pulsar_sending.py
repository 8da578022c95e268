"""Contests of producing to Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

import _pulsar
import attrs
import pulsar

import mqplug
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
UNBATCHED_SHARE = 10  # without batches, the client sends this much less in a turn: it is that much slower
RawLoop = Callable[[Any, bytes, int], int]


def native_topic(topic: str, partition: int = 0) -> str:
    """Return Pulsar's name of a partition."""
    return f"persistent://public/default/{topic}-partition-{partition}"


def fill_topic(client: pulsar.Client, topic: str, load: Load) -> None:
    """Produce the messages that the contests of consuming read, as batches of up to 1000, flushed one by one."""
    native = client.create_producer(native_topic(topic), **PRODUCER_OPTIONS)
    for _ in range(load.batches):
        for number, value in enumerate(load.values):
            native.send_async(value, None, partition_key=f"key-{number % 100}")
        native.flush()
    native.close()


@attrs.frozen
class SendLoad:
    """The size of the messages that the contests send, and how many they send."""

    size: int
    messages: int

    @property
    def topic(self) -> str:
        """The topic that the messages go to."""
        return f"sink-{self.size}"


def sending_contests(mq: mqplug.Client, client: pulsar.Client, load: SendLoad, java: JavaTools) -> list[Contest]:
    """Return the contests: results ignored, results read, and many at once. Each waits until all are stored."""
    value = b"x" * load.size

    def ours(words: str, loop: Callable[[mqplug.Producer, bytes, int], int]) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            with mq.producer(load.topic) as out:
                out.send(value)
                yield lambda: loop(out, value, load.messages)

        return Side("mqplug", words, prepare)

    def raw(
        name: str, words: str, loop: RawLoop, options: Mapping[str, Any] = PRODUCER_OPTIONS, share: int = 1
    ) -> Side:
        @contextmanager
        def prepare() -> Iterator[Work]:
            native = client.create_producer(native_topic(load.topic), **options)
            native.send(value)
            yield lambda: loop(native, value, load.messages // share)
            native.close()

        return Side(name, words, prepare)

    def rivals(words: str, loop: RawLoop) -> list[Side]:
        out_of_the_box = {"block_if_queue_full": True}  # otherwise messages would be refused
        return [
            raw("send_async", f"pulsar-client, mqplug's options: {words}", loop),
            raw("as it comes", f"pulsar-client, its own options (no batches): {words}", loop, out_of_the_box,
                UNBATCHED_SHARE),
        ]  # fmt: skip

    return [
        Contest(
            name=f"pulsar: submit, unwatched; {load.size} B", min_cpu_ratios={"send_async": 0.4},
            ours=ours("submit(value), flush()", submit_all),
            rivals=[
                *rivals("send_async(value, None), flush()", _raw_submit),
                *java.producing(native_topic(load.topic), load.size),
            ],
        ),
        Contest(
            name=f"pulsar: submit, results kept; {load.size} B", min_cpu_ratios={"send_async": 0.65},
            ours=ours("submit(value), then result() of each", submit_and_keep),
            rivals=rivals("send_async() with a callback that keeps the id", _raw_kept),
        ),
        Contest(
            name=f"pulsar: send many; {load.size} B", min_cpu_ratios={"send_async": 0.8},
            ours=ours("send_many([value] * 1000)", send_batches),
            rivals=rivals("1000 send_async() with that callback, then wait for the last report", _raw_many),
        ),
    ]  # fmt: skip


def _raw_submit(native: Any, value: bytes, messages: int) -> int:
    for _ in range(messages):
        native.send_async(value, None)
    native.flush()
    return messages


class _Ids:
    """A callback that keeps the ids. ``wait`` returns once all messages are reported as stored."""

    def __init__(self, messages: int) -> None:
        self.kept: list[Any] = []
        self._messages = messages
        self._complete = Semaphore(0)

    def __call__(self, result: Any, native_id: Any) -> None:
        if result == _pulsar.Result.Ok:
            self.kept.append(native_id)
        if len(self.kept) == self._messages:
            self._complete.release()

    def wait(self) -> None:
        assert self._complete.acquire(timeout=60)


def _raw_kept(native: Any, value: bytes, messages: int) -> int:
    ids = _Ids(messages)
    for _ in range(messages):
        native.send_async(value, ids)
    ids.wait()
    return len(ids.kept)


def _raw_many(native: Any, value: bytes, messages: int) -> int:
    for _ in range(batches := max(1, messages // BATCH_MESSAGES)):
        ids = _Ids(BATCH_MESSAGES)
        for _ in range(BATCH_MESSAGES):
            native.send_async(value, ids)
        ids.wait()
    return batches * BATCH_MESSAGES
