"""Batches: columns of received messages, of which each row can be read as a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, overload

import attrs

from mqplug._model.ids import MessageId
from mqplug._model.message import Message, UnreadMessage, messages_of
from mqplug._model.position import Position

if TYPE_CHECKING:
    import pyarrow

    from mqplug._model.id_text import Numbers
    from mqplug._model.log import Log
    from mqplug._model.message import Headers


_row_numbers = tuple(range(1000))  # shared by the messages of all batches, to save memory


def row_numbers(size: int) -> Iterator[int]:
    """Return an iterator over the row numbers of a batch."""
    global _row_numbers
    if size > len(_row_numbers):
        _row_numbers = tuple(range(2 * size))  # safe in two threads at once: the numbers are equal
    return iter(_row_numbers[:size])


class Columns(Protocol):
    """The messages from a driver: one column per call, each called at most once for a batch.

    ``ColumnsWithArrow`` has one more method.
    """

    def coordinates(self) -> Sequence[Numbers]:
        """Return the coordinates of the messages' ids, ascending."""
        ...

    def details(self) -> Sequence[Numbers] | None:
        """Return the other numbers that the ids need for an exact seek; None if they need none."""
        ...

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys; None for a message without one."""
        ...

    def values(self) -> Sequence[bytes | None]:
        """Return the values; None for a tombstone."""
        ...

    def headers(self) -> Sequence[Headers]:
        """Return the headers, in the order in which they were sent."""
        ...

    def timestamps(self) -> Sequence[int]:
        """Return the producers' times, or else the log's, in milliseconds since 1970."""
        ...

    def log_times(self) -> Sequence[int]:
        """Return the times that ``at_time`` searches, in milliseconds since 1970."""
        ...

    def attempts(self) -> Sequence[int] | None:
        """Return how many times each message was delivered, including this time; None if the core counts."""
        ...


class ColumnsWithArrow(Columns, Protocol):
    """Columns of which some are already Arrow arrays. Optional."""

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the named columns of ``Batch.to_arrow`` that are arrays, with the types of that method."""
        ...


@attrs.frozen
class ListColumns:
    """Columns that are already lists."""

    _coordinates: Sequence[Numbers]
    _values: Sequence[bytes | None]
    _keys: Sequence[bytes | None]
    _headers: Sequence[Headers]
    _timestamps: Sequence[int]
    _log_times: Sequence[int]
    _details: Sequence[Numbers] | None = None
    _attempts: Sequence[int] | None = None

    def coordinates(self) -> Sequence[Numbers]:
        return self._coordinates

    def details(self) -> Sequence[Numbers] | None:
        return self._details

    def keys(self) -> Sequence[bytes | None]:
        return self._keys

    def values(self) -> Sequence[bytes | None]:
        return self._values

    def headers(self) -> Sequence[Headers]:
        return self._headers

    def timestamps(self) -> Sequence[int]:
        return self._timestamps

    def log_times(self) -> Sequence[int]:
        return self._log_times

    def attempts(self) -> Sequence[int] | None:
        return self._attempts


class Batch(Sequence[Message]):
    """A run of messages of one partition, with the position after it.

    It is a sequence of messages, and also gives its columns: ``values``, ``keys``, ``headers``, ``timestamps`` and
    ``log_times`` (milliseconds), ``coordinates``, and all of them as ``to_arrow()``. ``next_position`` is where
    reading continues; an empty batch can also move it. The batch of an idle receive is empty and has neither log nor
    position.
    """

    def __init__(self, log: Log | None, next_position: Position | None, size: int, columns: Columns) -> None:
        self._log = log
        self._next = next_position
        self._size = size
        self._columns = columns
        self.delivery: Any = None  # its delivery, where the consumer keeps its acks

    @property
    def log(self) -> Log:
        """The log of these messages."""
        if self._log is None:
            raise ValueError("this batch is empty: it has no log")
        return self._log

    @property
    def next_position(self) -> Position:
        """The position right after the last message."""
        if self._next is None:
            raise ValueError("this batch is empty: it has no position")
        return self._next

    # A Batch has all of message.Rows, but pyright does not match a cached_property with a protocol's property.

    @cached_property
    def coordinates(self) -> Sequence[Numbers]:
        """The coordinates of each id."""
        return self._columns.coordinates()

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each message."""
        return self._columns.keys()

    @cached_property
    def values(self) -> Sequence[bytes | None]:
        """The payload of each message."""
        return self._columns.values()

    @cached_property
    def headers(self) -> Sequence[Headers]:
        """The headers of each message."""
        return self._columns.headers()

    @cached_property
    def timestamps(self) -> Sequence[int]:
        """The timestamp of each message, in milliseconds since 1970."""
        return self._columns.timestamps()

    @cached_property
    def log_times(self) -> Sequence[int]:
        """The log time of each message, in milliseconds since 1970."""
        return self._columns.log_times()

    @cached_property
    def attempts(self) -> Sequence[int]:
        """The known number of deliveries of each message, including this one."""
        known = self._columns.attempts()
        return known if known is not None else [1] * self._size

    @cached_property
    def details(self) -> Sequence[Numbers]:
        """The numbers that the driver needs for each id in addition to its coordinates."""
        known = self._columns.details()
        return known if known is not None else [()] * self._size

    def id(self, index: int) -> MessageId:
        """Return the id of one message."""
        return MessageId(self.log, self.coordinates[index], self.details[index])

    @property
    def ids(self) -> list[MessageId]:
        """Return the id of each message."""
        return [self.id(index) for index in range(self._size)]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> Message | Batch:
        if isinstance(index, slice):
            return self._part(*index.indices(self._size))
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(f"no message {index}: the batch has {self._size}")
        return UnreadMessage((self, _row_numbers[index] if index < len(_row_numbers) else index))  # pyright: ignore[reportArgumentType]

    def __iter__(self) -> Iterator[Message]:
        return messages_of(self, repeat(self), row_numbers(self._size))  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        where = f"{self._log.topic}[{self._log.partition}]" if self._log else "idle"
        return f"Batch({where}, {self._size} messages)"

    def take(self, indices: Sequence[int], next_position: Position) -> Batch:
        """Return a batch of only these rows."""
        return _Rows(self, indices, next_position)

    def ending_at(self, next_position: Position) -> Batch:
        """Set the position after the messages, and return this batch."""
        self._next = next_position
        return self

    def with_attempts(self, attempts: Sequence[int]) -> Batch:
        """Set the number of deliveries of each message, and return this batch."""
        self.attempts = attempts
        return self

    def row(self, index: int) -> Batch:
        """Return a detached batch of one message."""
        return self[index : index + 1].detached()

    def detached(self) -> Batch:
        """Return a copy that holds plain lists, and no consumer: it can be pickled and kept."""
        return Batch(*self._plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, self._plain()

    def _plain(self) -> tuple[Log | None, Position | None, int, Columns]:
        columns = ListColumns(
            list(self.coordinates), list(self.values), list(self.keys), list(self.headers),
            list(self.timestamps), list(self.log_times), list(self.details), list(self.attempts),
        )  # fmt: skip
        return self._log, self._next, self._size, columns

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return the messages as an Arrow record batch; needs ``pip install mqplug[arrow]``.

        ``columns`` chooses among key, value, topic, partition, offset, id, headers, timestamp, log_time and attempt,
        which are the default, and timestamp_type: 0 if the producer set the timestamp, 1 if the log did, null if the
        backend does not report it.
        """
        from mqplug._model.arrow import to_record_batch

        return to_record_batch(self, columns)  # pyright: ignore[reportArgumentType]

    def arrow_columns(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return the named columns that the driver has as Arrow arrays."""
        arrow: Callable[[Sequence[str]], Mapping[str, pyarrow.Array]] | None = getattr(self._columns, "arrow", None)
        return {} if arrow is None else arrow(names)

    def _part(self, start: int, stop: int, step: int) -> Batch:
        rows = range(start, stop, step)
        last = max(rows, default=self._size - 1)
        whole = last == self._size - 1 or self._log is None
        end = self._next if whole else Position(self.log, self.coordinates[last + 1])
        return _Rows(self, rows, end)


def empty_batch(next_position: Position | None = None) -> Batch:
    """Return a batch without messages, which may have the position where reading continues."""
    log = None if next_position is None else next_position.log
    return Batch(log, next_position, 0, ListColumns([], [], [], [], [], []))


class _Rows(Batch):
    """Some rows of another batch.

    Unless it is delivered by itself, its messages belong to the other batch, so that they can be acked.
    """

    def __init__(self, whole: Batch, rows: Sequence[int], next_position: Position | None) -> None:
        super().__init__(whole._log, next_position, len(rows), _Taken(whole, rows))  # noqa: SLF001
        self._whole = whole
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> Message | Batch:
        if self.delivery is None and not isinstance(index, slice):
            return self._whole[self._rows[index]]
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Message]:
        if self.delivery is None:
            return map(self._whole.__getitem__, self._rows)
        return super().__iter__()


class _Taken:
    """Columns of some rows of another batch."""

    def __init__(self, batch: Batch, rows: Sequence[int]) -> None:
        self._batch = batch
        self._rows = rows

    def _of(self, column: Sequence[Any]) -> Sequence[Any]:
        rows = self._rows
        if isinstance(rows, range) and rows.step > 0 and isinstance(column, list):
            return column[rows.start : rows.stop : rows.step]
        return [column[row] for row in rows]

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        rows = self._rows
        if not isinstance(rows, range) or rows.step != 1:
            return {}
        ready = self._batch.arrow_columns(names)
        return {name: array.slice(rows.start, len(rows)) for name, array in ready.items()}

    def coordinates(self) -> Sequence[Numbers]:
        return self._of(self._batch.coordinates)

    def details(self) -> Sequence[Numbers] | None:
        return self._of(self._batch.details)

    def keys(self) -> Sequence[bytes | None]:
        return self._of(self._batch.keys)

    def values(self) -> Sequence[bytes | None]:
        return self._of(self._batch.values)

    def headers(self) -> Sequence[Headers]:
        return self._of(self._batch.headers)

    def timestamps(self) -> Sequence[int]:
        return self._of(self._batch.timestamps)

    def log_times(self) -> Sequence[int]:
        return self._of(self._batch.log_times)

    def attempts(self) -> Sequence[int] | None:
        return self._of(self._batch.attempts)
