"""BIG: large messages, many messages, and retention."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from mqplug import MessageId, MessageTooLarge, PositionLost, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.processes import MIB, resident_bytes
from mqplug_testing._case_tools.registry import Registry
from mqplug_testing.contract.test_produce import LARGEST_TRIED

case = Registry()

SIZE = 1_000_000  # bytes
PIECE = 64 * 1024
PREFETCH = 256 * 1024


def of_size(bench: Bench, size: int) -> list[Record]:
    """Return records of this total size: with only a value, and with a key and with headers if the backend has them."""
    able, noise = bench.client.capabilities, random.Random(size)
    records = [Record(noise.randbytes(size), partition=0)]
    if able.keys:
        records.append(Record(noise.randbytes(size - 3), b"key", partition=0))
    if able.headers:
        records.append(Record(noise.randbytes(size - 9), headers=(("kind", b"large"),), partition=0))
    return records


def largest(bench: Bench) -> int:
    """Return the largest size of a message."""
    most = bench.client.capabilities.message_max_bytes
    if most > LARGEST_TRIED:
        pytest.skip(f"messages of {most} bytes are too large to try")
    return most


def same(bench: Bench, topic: str, ids: list[MessageId], records: list[Record]) -> None:
    """Check that the topic has these records, under these ids."""
    found = bench.read(topic)
    bench.equal([message.id for message in found], ids)
    for message, record in zip(found, records, strict=True):
        size = len(record.value or b"")
        bench.that(message.value == record.value, f"a value of {size} bytes came as it was sent")
        bench.equal((message.key, message.headers), (record.key, tuple(record.headers or ())))


@case("BIG-01")
def test_largest(bench: Bench) -> None:
    """A message of exactly the largest size, and one a byte smaller, are stored and read; key and headers count."""
    topic, most = bench.topic(), largest(bench)
    records = of_size(bench, most - 1) + of_size(bench, most)
    ids = [bench.filler(topic).send_many([record])[0] for record in records]
    same(bench, topic, ids, records)


@case("BIG-02")
def test_one_more(bench: Bench) -> None:
    """A message one byte larger raises ``MessageTooLarge``, wherever that byte is, and nothing of it is stored."""
    topic, most = bench.topic(), largest(bench)
    producer = bench.filler(topic)
    for record in of_size(bench, most + 1):
        for send in (producer.send, producer.submit):
            with bench.raises(MessageTooLarge) as caught:
                send(record.value, key=record.key, headers=record.headers, partition=0)
            bench.that(str(most) in str(caught.value), f"{caught.value} names the limit")
    sound = of_size(bench, most)[:1]
    same(bench, topic, list(producer.send_many(sound)), sound)


@case("BIG-05", timeout=600)
def test_many(bench: Bench) -> None:
    """A hundred thousand small messages are all there, in order; the other profiles send more or fewer."""
    topic, count = bench.topic(), bench.sized(quick=5_000, full=100_000, soak=1_000_000)
    for first in range(0, count, 10_000):
        bench.fill(topic, min(10_000, count - first), begin=first)
    came, wrong = 0, list[tuple[int, bytes | None]]()
    for message in bench.client.read(topic):
        if message.value != b"%d" % came:
            wrong.append((came, message.value))
        came += 1
    bench.equal(wrong[:10], [])
    bench.equal(came, count)


@case("BIG-06")
def test_mixed_sizes(bench: Bench) -> None:
    """Messages from zero bytes to a mebibyte, sent in turn in each way, arrive in order and unchanged."""
    topic, noise = bench.topic(), random.Random(6)
    sizes = [0, 1, 100, 10_000, 300_000, min(MIB, bench.client.capabilities.message_max_bytes)]
    wanted = [size for _ in range(bench.sized(quick=2, full=4, soak=40)) for size in noise.sample(sizes, len(sizes))]
    records = [Record(noise.randbytes(size), partition=0) for size in wanted]
    producer, ids = bench.producer(topic), list[MessageId]()
    for first in range(0, len(records), 3):
        one, *two = records[first : first + 3]
        handle = producer.submit(one.value, partition=0)
        ids += [handle.result(bench.patience), *producer.send_many(two)]
    same(bench, topic, ids, records)


@case("BIG-07", level="should", timeout=900)
def test_small_memory(bench: Bench) -> None:
    """Reading much data with a small ``prefetch_bytes`` takes little memory, and a gibibyte takes no more."""
    total = bench.sized(quick=48, full=96, soak=1024) * MIB
    topic, count = bench.topic(), total // PIECE
    for _ in range(count // 64):
        bench.filler(topic).send_many([Record(bytes(PIECE), partition=0) for _ in range(64)])
    reader = bench.reader(topic, prefetch_bytes=PREFETCH)
    came = len(bench.take(reader, 1))
    before = most = resident_bytes()
    while came < count:
        batch = reader.receive_many(16, bench.patience)
        bench.that(len(batch), f"only {came} of {count} messages came")
        came += len(batch)
        most = max(most, resident_bytes())
    bench.equal(came, count)
    took, bound = most - before, min(3 * total // 4, 128 * MIB)
    bench.that(took < bound, f"to read {total / MIB:.0f} MiB took {took / MIB:.0f} MiB")


@case("BIG-08", needs=("retention",), hooks=("enforce",), timeout=300, profile="full")
def test_retention(bench: Bench) -> None:
    """Retention by size, and by time, removes old messages, keeps new ones, and ``low`` moves up to them."""
    small, short = bench.owned(bench.name()), bench.owned(bench.name())
    bench.client.create_topic(small, retention_bytes=SIZE)
    bench.client.create_topic(short, retention=timedelta(seconds=1))
    for topic in (small, short):
        ids = list[MessageId]()
        for _ in range(6):
            ids += bench.filler(topic).send_many([Record(bytes(SIZE // 20), partition=0) for _ in range(10)])
            bench.roll(topic)
        _removes(bench, topic, ids)


@case("BIG-09", needs=("alter_topic", "retention"), hooks=("enforce",), timeout=300, profile="full")
def test_shorter_retention(bench: Bench) -> None:
    """A retention that is shortened later applies to existing messages."""
    limits: tuple[dict[str, Any], ...] = {"retention_bytes": SIZE}, {"retention": timedelta(seconds=1)}
    for limit in limits:
        topic, ids = bench.topic(), list[MessageId]()
        for number in range(6):
            if number == 3:
                bench.client.alter_topic(topic, **limit)
            ids += bench.filler(topic).send_many([Record(bytes(SIZE // 20), partition=0) for _ in range(10)])
            bench.roll(topic)
        _removes(bench, topic, ids)


def _removes(bench: Bench, topic: str, ids: list[MessageId]) -> None:
    assert bench.harness.enforce is not None
    enforce = bench.harness.enforce

    def moved() -> bool:
        enforce(bench.client, topic)
        return not bench.marks(topic).low.precedes(ids[0])

    bench.wait(moved, "low moved", within=120)
    left = list[MessageId]()

    def read_at_rest() -> bool:
        """Read the retained messages, and return whether none was removed during that."""
        ids.extend(bench.fill(topic, 1))
        low = bench.marks(topic).low
        with suppress(PositionLost):
            left[:] = [message.id for message in bench.read(topic, missing="next")]
        return bench.marks(topic).low == low

    bench.wait(read_at_rest, "the retained messages are read while none is removed", within=120)
    bench.equal(left, ids[len(ids) - len(left) :], "the newest messages are left")
    bench.equal(left[-1:], ids[-1:])
    bench.that(len(left) < len(ids), "the oldest are gone")
