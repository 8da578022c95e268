"""HP: payloads where members share a log, also when they come again."""

from __future__ import annotations

from itertools import product
from typing import Any

from mqplug import Message, MessageId, Record
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.registry import Registry

case = Registry()


@case("HP-17", needs=("shared",))
def test_shared(bench: Bench) -> None:
    """Where members share a log, odd values, keys and headers arrive as they were sent, each time they come."""
    arrive(bench, "shared")


@case("HP-18", needs=("key_shared",))
def test_key_shared(bench: Bench) -> None:
    """Where members share a log by key, odd values, keys and headers arrive as they were sent, each time they come."""
    arrive(bench, "key_shared")


def arrive(bench: Bench, mode: str) -> None:
    """Check odd messages that two members get: each is given back once, where that can be, and then acked."""
    topic, group = bench.topic(), bench.name()
    records = odd_records(bench)
    ids = list(bench.filler(topic).send_many(records))
    ids += [bench.filler(topic).send_many([record])[0] for record in records]
    wanted = dict(zip(ids, [parts_of(record) for record in records * 2], strict=True))
    members = [bench.member(topic, group, mode=mode) for _ in range(2)]
    again, done = set[MessageId](), set[MessageId]()

    def poll() -> bool:
        for member in members:
            for message in member.receive_many(20, bench.waiting.poll):
                bench.equal(parts_of(message), wanted.get(message.id))
                if bench.client.capabilities.nack and message.id not in again:
                    again.add(message.id)
                    member.nack(message, delay=0)
                else:
                    done.add(message.id)
                    member.ack(message)
        return len(done) == len(ids)

    bench.wait(poll, "all came, and were acked")


def odd_records(bench: Bench) -> list[Record]:
    """Empty and missing values, keys and headers, each with each, as far as the backend has them."""
    able = bench.client.capabilities
    values = [b"", bytes(range(256)), *([None] if able.null_payload else [])]
    keys = [None, b"", b"key", b"\xff\0"] if able.keys else [None]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [()]
    if able.headers:
        headers += [(("", b""), ("none", None)), (("/", b"\xff"),)]
    return [Record(*each, partition=0) for each in product(values, keys, headers)]


def parts_of(one: Record | Message) -> tuple[Any, ...]:
    """What the sender said."""
    return one.value, one.key, tuple(one.headers)
