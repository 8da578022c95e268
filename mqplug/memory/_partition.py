"""One partition: a log's messages as columns, with retention and searches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple, Self, TypeVar

import attrs

from mqplug._model.batch import Batch, ListColumns, empty_batch
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.position import Bounds, Position, PositionLost, Watermarks
from mqplug.memory._numbering import Numbering
from mqplug.spi import AtTime, Earliest, Headers, Last, Latest, Numbers, Run, SymbolicStart
from mqplug.spi.groups import Lease, Upcoming


@attrs.frozen
class MemoryRetention:
    """A topic's retention: seconds, and bytes in each partition."""

    seconds: float
    size: int | None = None


class Written(NamedTuple):
    """Messages to write, as columns. A timestamp of None means the log's own time."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    headers: Sequence[Headers]
    timestamps: Sequence[int | None]

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the columns of a run."""
        none = [None] * len(run)
        return cls(run.values, run.keys or none, run.headers or [()] * len(run), run.timestamps or none)


@attrs.define
class StoredRows:
    """The stored messages, one per row. ``stored`` is the time of arrival in milliseconds, which never decreases."""

    places: list[Numbers] = attrs.field(factory=list)
    details: list[Numbers] = attrs.field(factory=list)
    values: list[bytes | None] = attrs.field(factory=list)
    keys: list[bytes | None] = attrs.field(factory=list)
    headers: list[Headers] = attrs.field(factory=list)
    timestamps: list[int] = attrs.field(factory=list)
    log_times: list[int] = attrs.field(factory=list)
    latest: list[int] = attrs.field(factory=list)  # the running maximum of log_times, for searches by time
    stored: list[int] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)

    def remove(self, count: int) -> None:
        """Remove the first rows."""
        for field in attrs.fields(StoredRows):
            del getattr(self, field.name)[:count]
        if count:  # the maximum was perhaps a removed one
            self.latest = list(accumulate(self.log_times, max))


class Partition:
    """One log. All calls need the store's lock."""

    def __init__(
        self,
        log: Log,
        numbering: Numbering,
        retention: MemoryRetention,
        now: Callable[[], float],
        *,
        publish_time: bool,
    ) -> None:
        self.log = log
        self.numbering = numbering
        self.retention = retention
        self._now = now
        self._entries = numbering.width > 1
        self._publish_time = publish_time  # whether searches by time use the time of arrival
        self.rows = StoredRows()
        self.low = numbering.end

    @property
    def high(self) -> Numbers:
        """The position after the last message, and after its marker if there is one."""
        rows = self.rows
        if self._entries and rows.places:
            return self.numbering.behind(rows.places[-1], rows.details[-1])
        return self.numbering.end

    # writing -----------------------------------------------------------------------------------------------

    def append(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None],
        headers: Sequence[Headers],
        timestamps: Sequence[int | None],
    ) -> tuple[list[Numbers], list[Numbers]]:
        """Store one batch. Return the coordinates and details of its messages."""
        rows, count = self.rows, len(values)
        places, details = self.numbering.place(count)
        now = max(int(self._now() * 1000), rows.stored[-1] if rows.stored else 0)
        times = [now if each is None else each for each in timestamps]
        log_times = [now] * count if self._publish_time else times
        so_far = rows.latest[-1:]
        rows.places += places
        rows.details += details
        rows.values += values
        rows.keys += keys
        rows.headers += headers
        rows.timestamps += times
        rows.log_times += log_times
        rows.latest += list(accumulate([*so_far, *log_times], max))[len(so_far) :]
        rows.stored += [now] * count
        rows.sizes += map(_size, values, keys, headers)
        self.expire()
        return places, details

    def trim(self, before: Numbers) -> None:
        """Remove the messages before a position, to the extent that the numbering allows."""
        rows, numbering = self.rows, self.numbering
        wanted = self.row(before)
        gone = numbering.removable(rows.places, wanted)
        rows.remove(gone)
        first = numbering.before(rows.places[0]) if rows.places else numbering.end
        self.low = max(self.low, first if self._entries else min(before, first))

    def expire(self) -> None:
        """Remove the messages that exceed the retention."""
        rows, retention = self.rows, self.retention
        gone = bisect_left(rows.stored, (self._now() - retention.seconds) * 1000)
        if retention.size is not None and (excess := sum(rows.sizes) - retention.size) > 0:
            freed = list(accumulate(rows.sizes))
            gone = max(gone, min(bisect_left(freed, excess) + 1, len(freed) - 1))  # the last one always stays
        if gone:
            self.trim(self.numbering.before(rows.places[gone]) if gone < len(rows.places) else self.high)

    # reading -----------------------------------------------------------------------------------------------

    def row(self, position: Numbers) -> int:
        """Return the row of the first message at or after a position."""
        return bisect_left(self.rows.places, position)

    def read(self, position: Numbers, most: int, size: int) -> Batch | None:
        """Return up to ``most`` messages and about ``size`` bytes from a position on, or None if there are none yet.

        An empty batch skips a marker.
        """
        row = self.row(position)
        sizes = accumulate(self.rows.sizes[row : row + most], initial=0)
        stop = row + sum(before < size for before in islice(sizes, len(self.rows.sizes[row : row + most])))
        if row < stop:
            return self._batch(range(row, stop))
        if not self._entries and row == len(self.rows.places) and position < self.high:
            return empty_batch(Position(self.log, self.high))
        return None

    def upcoming(self, position: Numbers, most: int) -> Iterator[Upcoming]:
        """Yield up to ``most`` messages from a position on, in the form that lease tables need."""
        rows, row = self.rows, self.row(position)
        for each in range(row, min(len(rows.places), row + most)):
            yield Upcoming(rows.places[each], rows.keys[each], self.behind(each))

    def leased(self, leases: Sequence[Lease]) -> Batch:
        """Return the messages of these leases."""
        return self._batch([self.row(each.coordinates) for each in leases], [each.attempt for each in leases])

    def behind(self, row: int) -> Numbers:
        """Return the position right after the message of a row."""
        return self.numbering.behind(self.rows.places[row], self.rows.details[row])

    def _batch(self, taken: Sequence[int], attempts: Sequence[int] | None = None) -> Batch:
        rows = self.rows
        columns = ListColumns(
            _pick(rows.places, taken), _pick(rows.values, taken), _pick(rows.keys, taken), _pick(rows.headers, taken),
            _pick(rows.timestamps, taken), _pick(rows.log_times, taken), _pick(rows.details, taken), attempts,
        )  # fmt: skip
        is_last = taken[-1] == len(rows.places) - 1
        end = self.high if is_last else self.behind(taken[-1])  # after the last message's marker, if any
        return Batch(self.log, Position(self.log, end), len(taken), columns)

    def whole_entries(self, ranges: Iterable[tuple[Numbers, Numbers]]) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the ranges without the incomplete entries at their ends."""
        places = self.rows.places
        for first, last in ranges:
            begin, end = self.row(first), self.row(last)
            while begin <= end and places[begin][2] > 0:
                begin += 1
            while begin <= end and self.behind(end)[2] >= 0:
                end -= 1
            if begin <= end:
                yield places[begin], places[end]

    def entry(self, entry: Numbers) -> list[Numbers]:
        """Return the coordinates of an entry's remaining messages."""
        places = self.rows.places
        return places[self.row((*entry, -1)) : self.row((entry[0], entry[1] + 1, -1))]

    def lost(self, position: Numbers) -> PositionLost:
        """Return the error for a position that was removed."""
        low, wanted = Position(self.log, self.low), ":".join(map(str, position))
        text = f"message {wanted} of {self.log!r} was removed: the log begins at {low!r}"
        return PositionLost(text, log=self.log, low=low)

    # queries -----------------------------------------------------------------------------------------------

    def resolve(self, start: SymbolicStart) -> Position:
        """Resolve a start to its current position."""
        return Position(self.log, self._resolve(start))

    def _resolve(self, start: SymbolicStart) -> Numbers:
        match start:
            case Earliest():
                return self.low
            case Latest():
                return self.high
            case AtTime(milliseconds):
                return self._before(bisect_left(self.rows.latest, milliseconds))
            case Last(wanted):
                return self._before(max(0, len(self.rows.places) - wanted))

    def _before(self, row: int) -> Numbers:
        return self.numbering.before(self.rows.places[row]) if row < len(self.rows.places) else self.high

    def watermarks(self, since: Position | None, *, exact: bool) -> Watermarks:
        """Return low, high, and the number of messages from ``since`` on, or of all."""
        begin = max(self.low, since.coordinates) if since is not None else self.low
        count = self.numbering.count(self.rows.places, begin)
        return Watermarks(Position(self.log, self.low), Position(self.log, self.high), count, exact=exact)

    def bounds(self) -> Bounds:
        """Return the ids of the first and the last message."""
        rows = self.rows
        if not rows.places:
            return Bounds(None, None)
        first, last = (MessageId(self.log, rows.places[row], rows.details[row]) for row in (0, -1))
        return Bounds(first, last)


T = TypeVar("T")


def _pick(column: list[T], rows: Sequence[int]) -> list[T]:
    return column[rows.start : rows.stop] if isinstance(rows, range) else [column[row] for row in rows]


def _size(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    size = len(value or b"") + len(key or b"")
    return size + sum(len(name.encode()) + len(content or b"") for name, content in headers)
