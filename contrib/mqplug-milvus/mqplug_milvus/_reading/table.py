"""The rows of a collection, as its events say."""

from __future__ import annotations

from typing import Any

from mqplug_milvus._format.events import (
    CollectionCreated,
    CollectionDropped,
    Delete,
    Event,
    Insert,
    PartitionDropped,
)

Key = int | str


class Table:
    """The rows of one collection by primary key, as Milvus' queries return them.

    Its shards may be applied in any order, because a key's rows are all in one shard.
    """

    def __init__(self, primary: str) -> None:
        self._primary = primary
        self._rows: dict[Key, tuple[int, int, dict[str, Any]]] = {}  # time stamp, partition, row

    @property
    def rows(self) -> dict[Key, dict[str, Any]]:
        """The rows by primary key."""
        return {key: row for key, (_, _, row) in self._rows.items()}

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, event: Event) -> None:
        """Take over what an event says. Apply the events of a topic in their order."""
        match event:
            case Insert():
                for row, time in zip(event.rows(), event.times, strict=True):
                    self._rows[row[self._primary]] = (time, event.partition_id, row)
            case Delete():
                for key, time in zip(event.keys, event.times, strict=True):
                    # A row of the same time stamp stays: it is the other half of an upsert.
                    if key in self._rows and self._rows[key][0] < time:
                        del self._rows[key]
            case PartitionDropped():
                gone = event.partition_id
                self._rows = {key: kept for key, kept in self._rows.items() if kept[1] != gone}
            case CollectionDropped():
                self._rows.clear()
            case _:
                pass


class Tables:
    """The rows of all collections of which the creation was seen."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """The names of the collections by number."""
        self._tables: dict[int, Table] = {}

    def __getitem__(self, collection: str) -> Table:
        """Return the newest collection of this name. Raise ``KeyError`` if none was seen."""
        for number in sorted(self._tables, reverse=True):
            if self.names[number] == collection:
                return self._tables[number]
        raise KeyError(collection)

    def apply(self, event: Event) -> None:
        """Take over what an event says."""
        if isinstance(event, CollectionCreated):
            self.names[event.collection_id] = event.collection
            self._tables.setdefault(event.collection_id, Table(event.schema.primary.name))
        elif isinstance(event, Insert | Delete | PartitionDropped | CollectionDropped):
            table = self._tables.get(event.collection_id)
            if table is not None:
                table.apply(event)
            if isinstance(event, CollectionDropped):
                self._tables.pop(event.collection_id, None)
