"""Received messages as columns, from the client library's objects.

A column is one object's method: ``CompiledRows``, which compiled code fills, takes the place of ``ReceivedMessages``
for readers.

An id costs as much as the message: a client object, and a call for each of its numbers. So the ids of a reader are
found by entry. A batch contains its number of messages, and a reader receives the messages of an entry in order: it may
go back when it reconnects, but it never skips one. So if the first and the last message of a run lie as far apart as
the run is long, the run has no gaps. This does not hold for a member of a group, which is not sent acked messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, compress, repeat
from typing import Any, Protocol, Self

import _pulsar
import attrs
from _pulsar import Message as Native, MessageId as NativeId, Result

from mqplug.spi import Columns, Headers, Numbers
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.escapes import EPOCH, headers_from_properties, keys_from_texts, with_schema_version


@attrs.frozen
class EntryRun:
    """Consecutive messages of one entry. A message without a batch is a run of its own."""

    first: Numbers
    """The coordinates of the first message."""
    detail: Numbers
    """The detail that all their ids share."""
    size: int

    @property
    def next_position(self) -> Numbers:
        """The position after the last message."""
        return message_ids.position_after(_plus(self.first, self.size - 1), self.detail)

    def coordinates(self) -> Sequence[Numbers]:
        """Return the coordinates of each message."""
        if self.size == 1:
            return (self.first,)
        ledger, entry, index = self.first
        return list(zip(repeat(ledger), repeat(entry), range(index, index + self.size), strict=False))


def entry_runs(messages: Sequence[Any]) -> list[EntryRun]:
    """Return the runs of the messages that a client's reader received, in order."""
    runs = []
    row = 0
    while row < len(messages):
        native = messages[row].message_id()
        first, detail = message_ids.coordinates(native), message_ids.detail(native)
        size = min(detail[0] - first[2], len(messages) - row) if detail else 1
        if size > 1 and message_ids.coordinates(messages[row + size - 1].message_id()) != _plus(first, size - 1):
            size = 1
        runs.append(EntryRun(first, detail, size))
        row += size
    return runs


def _plus(place: Numbers, messages: int) -> Numbers:
    return (*place[:2], place[2] + messages, *place[3:])


class Received(Columns, Protocol):
    """Messages of one partition that a reader received, in order."""

    def __len__(self) -> int: ...

    def only(self, numbers: Sequence[int]) -> Self:
        """Return these rows."""
        ...

    @property
    def runs(self) -> Sequence[EntryRun]:
        """These messages by entry."""
        ...

    @property
    def next_position(self) -> Numbers:
        """The position after the last message."""
        ...


class ReceivedMessages:
    """The client's messages of one partition, in order. Each column is built on demand.

    With ``by_entry``, coordinates may be found by entry, which is valid for a reader.
    """

    def __init__(self, messages: list[Any], *, by_entry: bool = False) -> None:
        self.messages = messages
        self._by_entry = by_entry

    def __len__(self) -> int:
        return len(self.messages)

    def only(self, numbers: Sequence[int]) -> Self:
        """Return these rows."""
        return type(self)([self.messages[row] for row in numbers], by_entry=self._by_entry)

    @cached_property
    def ids(self) -> list[Any]:
        """The client's ids. Only these can be acked safely: ids deserialized from bytes ack too many messages."""
        return list(map(Native.message_id, self.messages))

    def id_of(self, row: int) -> Any:
        """Return the client's id in a row."""
        return self.ids[row]

    @cached_property
    def runs(self) -> list[EntryRun]:
        """These messages by entry."""
        return entry_runs(self.messages)

    @cached_property
    def next_position(self) -> Numbers:
        """The position after the last message."""
        if self._by_entry:
            return self.runs[-1].next_position
        return message_ids.position_after(self._coordinates[-1], message_ids.detail(self.id_of(-1)))

    @cached_property
    def _coordinates(self) -> list[Numbers]:
        if self._by_entry:
            return list(chain.from_iterable(run.coordinates() for run in self.runs))
        ids = self.ids
        indexes = list(map(NativeId.batch_index, ids))
        if min(indexes, default=-1) < 0:
            return [message_ids.coordinates(native) for native in ids]
        return list(zip(map(NativeId.ledger_id, ids), map(NativeId.entry_id, ids), indexes, strict=True))

    @cached_property
    def _properties(self) -> list[dict[str, str]]:
        return list(map(Native.properties, self.messages))

    @cached_property
    def _log_times(self) -> list[int]:
        return list(map(Native.publish_timestamp, self.messages))

    def coordinates(self) -> Sequence[Numbers]:
        return self._coordinates

    def details(self) -> Sequence[Numbers]:
        if self._by_entry:
            return list(chain.from_iterable(repeat(run.detail, run.size) for run in self.runs))
        of_entries: dict[Numbers, Numbers] = {}
        for place, native in zip(self._coordinates, self.ids, strict=True):
            if place[:2] not in of_entries:
                of_entries[place[:2]] = message_ids.detail(native)
        return [of_entries[place[:2]] for place in self._coordinates]

    def keys(self) -> Sequence[bytes | None]:
        return keys_from_texts(map(Native.partition_key, self.messages))

    def values(self) -> Sequence[bytes | None]:
        values: list[bytes | None] = list(map(Native.data, self.messages))
        if not all(values):
            for row in compress(range(len(values)), map(Native.has_null_value, self.messages)):
                values[row] = None
        return values

    def headers(self) -> Sequence[Headers]:
        headers = [headers_from_properties(properties) if properties else () for properties in self._properties]
        versions = list(map(Native.int_schema_version, self.messages))
        if max(versions, default=-1) < 0:
            return headers
        return list(map(with_schema_version, headers, versions))

    def timestamps(self) -> Sequence[int]:
        times = list(map(Native.event_timestamp, self.messages))
        if all(times):
            return times
        return [
            time or (0 if EPOCH in properties else published)
            for time, properties, published in zip(times, self._properties, self._log_times, strict=True)
        ]

    def log_times(self) -> Sequence[int]:
        return self._log_times

    def attempts(self) -> Sequence[int]:
        return [count + 1 for count in map(Native.redelivery_count, self.messages)]


class LeasedRun(ReceivedMessages):
    """Messages that are handed out. Their attempts come from the leases, because the broker does not count all."""

    def __init__(self, messages: list[Any], attempts: Sequence[int]) -> None:
        super().__init__(messages)
        self._attempts = attempts

    def attempts(self) -> Sequence[int]:
        return self._attempts


def take_by_member(native: Any, arrived: list[Any], most: int) -> tuple[ReceivedMessages, int]:
    """Take messages of a group; see ``TakeNow``."""
    messages, result = _take(native, arrived, most)
    return ReceivedMessages(messages), result


def take_by_reader(native: Any, arrived: list[Any], most: int) -> tuple[ReceivedMessages, int]:
    """Take messages without a group; see ``TakeNow``."""
    messages, result = _take(native, arrived, most)
    return ReceivedMessages(messages, by_entry=True), result


def _take(native: Any, messages: list[Any], most: int) -> tuple[list[Any], int]:
    receive = native.receive if hasattr(native, "receive") else native.read_next
    try:
        while len(messages) < most:
            messages.append(receive(0))
    except _pulsar.Timeout:
        return messages, Result.Timeout.value
    except _pulsar.PulsarException as error:
        return messages, getattr(Result, type(error).__name__, Result.UnknownError).value
    return messages, Result.Ok.value
