"""The client calls of each operation that a backend may declare."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

import attrs

from mqplug import EARLIEST, MessageId, Retry, Staged, Unsupported, at_time, matching
from mqplug.spi import Mode
from mqplug_testing._case_tools.bench import Bench

OperationCall = Callable[[], object]
OperationCalls = Callable[[Bench, str], list[OperationCall]]

NEEDS_A_MEMBER = {"nack", "dead_letter"}


def refuses(bench: Bench, capability: str) -> None:
    """Check that the calls of an undeclared capability raise ``Unsupported``, which names it, and change nothing."""
    able = attrs.asdict(bench.client.capabilities)
    topic, ids = bench.filled(2)
    for call in OPERATION_CALLS[capability](bench, topic):
        with bench.raises(Unsupported) as caught:
            call()
        bench.that(getattr(caught.value, "capability", None) in _names(capability, able), str(caught.value))
    bench.equal([message.id for message in bench.read(topic)], ids, "refused calls changed nothing")


def works(bench: Bench, capability: str) -> None:
    """Check that the calls of a declared capability succeed."""
    for call in OPERATION_CALLS[capability](bench, bench.filled(2)[0]):
        call()
        bench.that(True, capability)


def _names(capability: str, able: dict[str, object]) -> set[str]:
    """Return the capabilities that the error may name: without groups, it may name ``groups`` for all calls about
    groups.
    """
    about_groups = capability in {"durable_groups", *get_args(Mode), *NEEDS_A_MEMBER}
    return {capability} if able["groups"] or not about_groups else {capability, "groups"}


# topics ----------------------------------------------------------------------------------------------------


def _delete(bench: Bench, topic: str) -> list[OperationCall]:
    spare = bench.topic()
    return [lambda: bench.client.delete_topic(spare)]


def _altered(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.alter_topic(topic, retention=3600)]


def _list(bench: Bench, topic: str) -> list[OperationCall]:
    return [bench.client.topics]


def _matched(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.consumer(matching(re.escape(topic)), start=EARLIEST)]


def _made(bench: Bench, topic: str, **settings: Any) -> list[OperationCall]:
    return [lambda: bench.client.create_topic(bench.owned(bench.name()), **settings)]


def _retained(bench: Bench, topic: str) -> list[OperationCall]:
    return _made(bench, topic, retention=3600) + _made(bench, topic, retention_bytes=2**30)


def _made_when_asked(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.producer(bench.owned(bench.name()), create=True)]


def _grown(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.add_partitions(topic, 2)]


def _trimmed(bench: Bench, topic: str) -> list[OperationCall]:
    low = bench.marks(topic).low
    return [lambda: bench.client.trim(topic, {0: low})]


# reading ---------------------------------------------------------------------------------------------------


def _sought(bench: Bench, topic: str) -> list[OperationCall]:
    return [
        lambda: bench.reader(topic).seek(at_time(0)),
        lambda: bench.reader(topic, at_time(0)),
        lambda: bench.client.resolve(topic, at_time(0)),
    ]


def _advanced(bench: Bench, topic: str) -> list[OperationCall]:
    low = bench.marks(topic).low
    return [lambda: bench.client.advance(low, 1), lambda: bench.client.distance(low, low)]


def _paused(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.reader(topic).pause(0)]


# groups ----------------------------------------------------------------------------------------------------


def _listed(bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.groups(topic)]


def _stored(bench: Bench, topic: str) -> list[OperationCall]:
    client, group = bench.client, bench.name()

    def reset_and_ask() -> None:
        client.reset_group(group, topic, EARLIEST)
        client.positions(topic, group=group)
        client.lag(topic, group=group)
        client.delete_group(group)

    return [reset_and_ask, lambda: client.reset_group(bench.name(), topic, EARLIEST)]


def _joined(mode: Any, bench: Bench, topic: str) -> list[OperationCall]:
    return [lambda: bench.client.consumer(topic, group=bench.name(), mode=mode).close()]


def _dead_lettered(bench: Bench, topic: str) -> list[OperationCall]:
    def open_with() -> None:
        bench.client.consumer(topic, group=bench.name(), retry=Retry(1), dead_letter=bench.topic()).close()

    return [open_with]


def _returned(bench: Bench, topic: str) -> list[OperationCall]:
    def give_back() -> None:
        mode = next(mode for mode in get_args(Mode) if bench.client.support(mode) != "absent")
        member = bench.member(topic, bench.name(), mode=mode)
        member.nack(bench.take(member, 1)[0])

    def from_a_reader() -> None:
        reader = bench.reader(topic)
        reader.nack(bench.take(reader, 1)[0])

    return [give_back if bench.client.capabilities.nack else from_a_reader]


# messages --------------------------------------------------------------------------------------------------


def _staged(bench: Bench, topic: str) -> list[OperationCall]:
    client = bench.client
    if not client.capabilities.staged_ingest:
        made_up = Staged(client.backend, "", topic, 0, 0, "")
        ingest, discard = partial(client.ingest, writer=bench.name(), number=0), client.discard
        return [lambda: client.stage(topic), lambda: ingest(made_up), lambda: discard(made_up)]

    def stage() -> Staged:
        with client.stage(topic) as made:
            made.write([b"x"])
            return made.finish()

    return [lambda: client.ingest(stage(), writer=bench.name(), number=0), lambda: client.discard(stage())]


def _in_a_transaction(bench: Bench, topic: str) -> list[OperationCall]:
    def step() -> None:
        with bench.client.transaction(bench.name(), topic) as made:
            made.send(b"x")

    return [step]


def _sent(fields: Mapping[str, Any], bench: Bench, topic: str) -> list[OperationCall]:
    producer = bench.producer(topic)

    def send() -> MessageId:
        return producer.send(**{"value": b"x", **fields})

    def submit() -> MessageId:
        return producer.submit(**{"value": b"x", **fields}).result()

    return [send, submit]


OPERATION_CALLS: Final[Mapping[str, OperationCalls]] = {
    "alter_topic": _altered,
    "delete_topic": _delete,
    "list_topics": _list,
    "topic_patterns": _matched,
    "partitions": partial(_made, partitions=2),
    "add_partitions": _grown,
    "trim": _trimmed,
    "retention": _retained,
    "auto_create_topics": _made_when_asked,
    "seek_time": _sought,
    "advance": _advanced,
    "pause_resume": _paused,
    "groups": _listed,
    "durable_groups": _stored,
    **{mode: partial(_joined, mode) for mode in get_args(Mode)},
    "nack": _returned,
    "dead_letter": _dead_lettered,
    "null_payload": partial(_sent, {"value": None}),
    "headers": partial(_sent, {"headers": {"a": b"b"}}),
    "keys": partial(_sent, {"key": b"k"}),
    "timestamps_producer": partial(_sent, {"timestamp": 1_700_000_000_000}),
    "staged_ingest": _staged,
    "transactions": _in_a_transaction,
}

HOOKS_OF_OPERATIONS: Final[Mapping[str, str]] = {
    "auth": "intruder",
    "compression": "codecs",
    "exclusive_open": "second_process",
}
"""Operations that are not client calls, each with the hook that the case about it uses instead."""
