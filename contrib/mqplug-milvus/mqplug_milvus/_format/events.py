"""What Milvus' messages say, as typed events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from mqplug import MessageId
from mqplug_milvus._format.columns import Column
from mqplug_milvus._format.schema import Schema

if TYPE_CHECKING:
    import pyarrow


def clock(time: int) -> datetime:
    """Return the wall clock of a hybrid time stamp, of which the low 18 bits count within a millisecond."""
    return datetime.fromtimestamp((time >> 18) / 1000, UTC)


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened in Milvus, at a hybrid time stamp."""

    time: int
    """The hybrid time stamp, by which Milvus orders events."""
    id: MessageId | None = None
    """The message that said it, if it was received with mqplug."""
    shard: str = ""
    """The virtual channel: the part of one collection in this topic."""

    @property
    def at(self) -> datetime:
        """The wall clock of the time stamp."""
        return clock(self.time)


@attrs.frozen(kw_only=True)
class TimeTick(Event):
    """No event with this time stamp or an earlier one comes later in this topic."""


@attrs.frozen(kw_only=True)
class CollectionEvent(Event):
    """An event of one collection."""

    database: str = ""
    collection: str
    """Its name; empty where Milvus writes only the number, as when a collection is dropped."""
    collection_id: int


@attrs.frozen(kw_only=True)
class Insert(CollectionEvent):
    """Inserted rows, as columns."""

    partition: str = ""
    partition_id: int = 0
    times: Sequence[int] = attrs.field(repr=False)
    """The time stamp of each row."""
    row_ids: Sequence[int] = attrs.field(repr=False)
    columns: tuple[Column, ...] = attrs.field(repr=False)
    is_upsert: bool = False
    """Whether the rows replace those that a `Delete` of the same time stamp has removed just before."""

    def __len__(self) -> int:
        return len(self.times)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as Milvus' queries return them: keys that are not in the schema are keys of the row."""
        fixed = {each.name: each.values() for each in self.columns if not each.is_dynamic}
        dynamic = [each.values() for each in self.columns if each.is_dynamic]
        for number in range(len(self)):
            row = {name: values[number] for name, values in fixed.items()}
            for values in dynamic:
                row.update(values[number] or {})
            yield row

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the columns as Arrow, vectors as lists of a fixed size. Needs ``mqplug-milvus[arrow]``."""
        from mqplug_milvus._format.arrow import record_batch

        return record_batch(self.columns)


@attrs.frozen(kw_only=True)
class Delete(CollectionEvent):
    """Removed rows, by primary key: those with an earlier time stamp than the key's. One of the same time stays."""

    partition: str = ""
    partition_id: int = 0
    keys: Sequence[int] | Sequence[str] = attrs.field(repr=False)
    times: Sequence[int] = attrs.field(repr=False)
    """The time stamp of each key."""

    def __len__(self) -> int:
        return len(self.keys)


@attrs.frozen(kw_only=True)
class CollectionCreated(CollectionEvent):
    """A collection was created. Each of its topics says so."""

    schema: Schema
    shards: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class CollectionDropped(CollectionEvent):
    """A collection was dropped, with its rows."""


@attrs.frozen(kw_only=True)
class PartitionCreated(CollectionEvent):
    """A partition of a collection was created."""

    partition: str
    partition_id: int


@attrs.frozen(kw_only=True)
class PartitionDropped(CollectionEvent):
    """A partition was dropped, with its rows."""

    partition: str
    partition_id: int


@attrs.frozen(kw_only=True)
class Other(Event):
    """A message that changes no row, such as the request to load a collection, or to build an index."""

    kind: str
