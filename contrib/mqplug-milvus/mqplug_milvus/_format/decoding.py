"""Turns one message of a topic into an event.

Up to Milvus 2.5, and in the older form of 2.6, a message is one protocol buffer that begins with its type and time
stamp. The newer form of 2.6 keeps these in the message's properties, and has the same body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

import mqplug
from mqplug_milvus._format.columns import Column
from mqplug_milvus._format.events import (
    CollectionCreated,
    CollectionDropped,
    Delete,
    Event,
    Insert,
    Other,
    PartitionCreated,
    PartitionDropped,
    TimeTick,
)
from mqplug_milvus._format.schema import Schema
from mqplug_milvus._format.wire import FormatError, LaterIntegers, Message, decoded

INSERT, DELETE, TIME_TICK = 400, 401, 1200
KINDS: Final = {
    100: "CreateCollection",
    101: "DropCollection",
    106: "LoadCollection",
    107: "ReleaseCollection",
    108: "CreateAlias",
    109: "DropAlias",
    110: "AlterAlias",
    111: "AlterCollection",
    113: "RenameCollection",
    200: "CreatePartition",
    201: "DropPartition",
    205: "LoadPartitions",
    206: "ReleasePartitions",
    300: "CreateIndex",
    302: "DropIndex",
    INSERT: "Insert",
    DELETE: "Delete",
    402: "Flush",
    404: "Upsert",
    TIME_TICK: "TimeTick",
    1208: "DataNodeTt",
    1801: "CreateDatabase",
    1802: "DropDatabase",
    1803: "ListDatabases",
}
"""The types of messages in Milvus' topics, up to 2.5."""

NEWER_KINDS: Final = {
    1: TIME_TICK, 2: INSERT, 3: DELETE, 5: 100, 6: 101, 7: 200, 8: 201,
}  # fmt: skip
"""The types of the newer form, as those of the older one: what has the same body."""
CHANGES_NO_ROW: Final = frozenset({4, *range(9, 37), 800})
TRANSACTIONS: Final = frozenset({900, 901, 902, 999})
NEWER_BASE: Final = 36  # of the numbers in properties


@attrs.frozen
class _Head:
    """A message's type and time stamp, and its id for the event."""

    kind: int
    time: int
    id: mqplug.MessageId | None
    newer: bool = False


def decode(message: mqplug.Message) -> Event:
    """Return what a message of one of Milvus' topics says.

    Raise ``FormatError`` if it is not Milvus', is damaged, or has a form that is not read here.
    """
    try:
        return decode_bytes(message.value or b"", message.headers, message.id)
    except FormatError as error:
        error.topic = message.topic
        raise


def decode_bytes(
    value: bytes, headers: Iterable[tuple[str, bytes | None]] = (), message_id: mqplug.MessageId | None = None
) -> Event:
    """Return what a message says, given its bytes and its headers."""
    properties = {name: data for name, data in headers if name in {"_v", "_t", "_tt", "_tx", "_ch"}}
    if "_v" in properties and "_t" in properties:
        return _newer(value, properties, message_id)
    body = _body(value)
    base = body.message(1)
    kind = base.unsigned(1)
    if 1 not in body or kind not in KINDS:
        raise FormatError(f"the bytes are no message of Milvus that is known here (type {kind})")
    return _event(_Head(kind, base.unsigned(3), message_id), body)


def _newer(value: bytes, properties: dict[str, bytes | None], message_id: mqplug.MessageId | None) -> Event:
    kind, time = (_number(properties, name) for name in ("_t", "_tt"))
    if "_ch" in properties:
        raise FormatError("the message is encrypted", fix="Read a collection of a database without encryption")
    if "_tx" in properties or kind in TRANSACTIONS:
        raise FormatError("the message belongs to a transaction of Milvus 2.6 or newer, which is not read here")
    if kind in CHANGES_NO_ROW:
        return Other(time=time, id=message_id, kind=f"type {kind}")
    if kind not in NEWER_KINDS:
        raise FormatError(f"the message has the type {kind}, which is newer than what is read here")
    return _event(_Head(NEWER_KINDS[kind], time, message_id, newer=True), _body(value))


def _number(properties: dict[str, bytes | None], name: str) -> int:
    text = decoded(memoryview(properties.get(name) or b"0"))
    try:
        return int(text, 10 if name == "_t" else NEWER_BASE)
    except ValueError:
        raise FormatError(f"the property {name!r} is no number: {text!r}") from None


def _body(value: bytes) -> Message:
    if not value:
        raise FormatError("the message is empty")
    return Message(memoryview(value))


def _event(head: _Head, body: Message) -> Event:
    read = _READERS.get(head.kind)
    return Other(time=head.time, id=head.id, kind=KINDS[head.kind]) if read is None else read(head, body)


def _insert(head: _Head, body: Message) -> Insert:
    times = body.unsigned_each(10)
    rows = len(times)
    if body.unsigned(14) not in {0, rows}:
        raise FormatError(f"the message has {rows} time stamps for {body.unsigned(14)} rows")
    if 12 in body:
        raise FormatError("the rows are stored one by one, as Milvus did before 2.1, which is not read here")
    if head.newer:
        times = [head.time] * rows
    return Insert(
        # The insert of an upsert has no time stamp of its own.
        time=min(times, default=head.time),
        times=times,
        row_ids=LaterIntegers(body, 11),
        columns=tuple(Column.read(Message(each), rows) for each in body.each(13)),
        is_upsert=head.time == 0,
        partition_id=body.integer(8),
        **_names(head, body, collection=4, partition=5),
    )


def _delete(head: _Head, body: Message) -> Delete:
    times, ids = body.unsigned_each(10), body.message(12)
    keys: list[Any] = body.integers(9)  # before 2.2
    if 1 in ids:
        keys = ids.message(1).integers(1)
    elif 2 in ids:
        keys = [decoded(each) for each in ids.message(2).each(1)]
    if head.newer:
        times = [head.time] * len(keys)
    if len(times) != len(keys):
        raise FormatError(f"the message has {len(times)} time stamps for {len(keys)} keys")
    return Delete(
        time=min(times, default=head.time),
        times=times,
        keys=keys,
        partition_id=body.integer(8),
        **_names(head, body, collection=4, partition=5),
    )


def _names(head: _Head, body: Message, collection: int, partition: int | None = None) -> dict[str, Any]:
    named: dict[str, Any] = {
        "id": head.id,
        "shard": body.text(2),
        "database": body.text(3),
        "collection": body.text(collection),
        "collection_id": body.integer(7),
    }
    return named if partition is None else {**named, "partition": body.text(partition)}


def _collection_created(head: _Head, body: Message) -> CollectionCreated:
    schema = Schema.read(body.message(13) if 13 in body else body.message(8))
    return CollectionCreated(
        time=head.time,
        id=head.id,
        database=body.text(2),
        collection=body.text(3) or schema.collection,
        collection_id=body.integer(6),
        schema=schema,
        shards=tuple(decoded(each) for each in body.each(9)),
        topics=tuple(decoded(each) for each in body.each(10)),
    )


def _collection_dropped(head: _Head, body: Message) -> CollectionDropped:
    return CollectionDropped(
        time=head.time, id=head.id, database=body.text(2), collection=body.text(3), collection_id=body.integer(5)
    )


def _partition(
    kind: type[PartitionCreated] | type[PartitionDropped],
) -> Callable[[_Head, Message], PartitionCreated | PartitionDropped]:
    def read(head: _Head, body: Message) -> PartitionCreated | PartitionDropped:
        return kind(
            time=head.time,
            id=head.id,
            database=body.text(2),
            collection=body.text(3),
            collection_id=body.integer(6),
            partition=body.text(4),
            partition_id=body.integer(7),
        )

    return read


_READERS: Final[dict[int, Callable[[_Head, Message], Event]]] = {
    INSERT: _insert,
    DELETE: _delete,
    TIME_TICK: lambda head, _: TimeTick(time=head.time, id=head.id),
    100: _collection_created,
    101: _collection_dropped,
    200: _partition(PartitionCreated),
    201: _partition(PartitionDropped),
}
