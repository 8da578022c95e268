"""The records of one batch as columns, checked column by column."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import add, countOf, itemgetter
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, Union

from mqplug._model.message import Headers, Message
from mqplug._model.position import to_milliseconds
from mqplug._produce.record import Record, check_bytes, check_headers, size_of_headers

if TYPE_CHECKING:
    import pyarrow

    from mqplug._produce.arrow import ArrowColumns

T = TypeVar("T")

_BYTES = frozenset({bytes, type(None)})


class ArrowArray(Protocol):
    """An Arrow record batch of any library."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class ArrowStream(Protocol):
    """An Arrow table, or a stream of record batches, of any library."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Records = Iterable[Record | bytes] | ArrowArray | ArrowStream
"""The records that ``send_many`` takes."""


SendColumns = Union["RecordColumns", "ArrowColumns"]
"""Records to send. A column is None if no record has the field."""


def columns_of(records: Records, topic: str | None) -> SendColumns:
    """Check records for this topic, or for any. Raise ``TypeError`` or ``ValueError`` before any I/O."""
    if not _is_arrow(records):
        return RecordColumns.of(records)  # type: ignore[arg-type]
    from mqplug._produce.arrow import ArrowColumns

    return ArrowColumns.of(records, topic)


def snapshot(records: Records) -> Records:
    """Return the records as a list that the caller cannot change. Arrow data is immutable."""
    return records if _is_arrow(records) else _listed(records)


def _is_arrow(records: object) -> bool:
    return hasattr(records, "__arrow_c_stream__") or hasattr(records, "__arrow_c_array__")


_ONE = (bytes, bytearray, memoryview, str, Record, Mapping)
"""Types of a single value, which are refused although some are iterable."""


def _listed(records: object) -> list[Any]:
    """Return several records as a list. Raise ``TypeError`` for a single one."""
    if isinstance(records, _ONE) or not isinstance(records, Iterable):
        raise TypeError(
            f"records must be a list, each bytes or a Record, not {type(records).__name__}; send() takes a single one"
        )
    return list(records)


def _record(row: Any) -> Record:
    """Return a record with this value."""
    if isinstance(row, Message):
        raise TypeError("a record must be bytes or a Record, not Message: use Record(message.value, key=message.key)")
    if isinstance(row, tuple | dict):
        raise TypeError(f"a record must be bytes or a Record, not {type(row).__name__}: use Record(value, key=...)")
    return Record(row)  # its value is checked with the others


class RecordColumns:
    """Records given as objects."""

    __slots__ = ("_ends", "headers", "keys", "partitions", "size", "timestamps", "topics", "values")

    def __init__(
        self,
        values: Sequence[bytes | None],
        ends: Sequence[int] | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int | None] | None = None,
        partitions: Sequence[Any] | None = None,
        topics: Sequence[str | None] | None = None,
        *,
        size: int | None = None,
    ) -> None:
        self.values = values
        self.keys = keys
        self.headers = headers
        self.timestamps = timestamps
        self.partitions = partitions
        self.topics = topics
        self._ends = ends
        if size is None:
            size = ends[-1] if ends else sum(map(sum, self._lengths()))
        self.size = size
        """The bytes of all records."""

    @classmethod
    def of(cls, records: Iterable[Record | bytes]) -> Self:
        """Check records. Raise ``TypeError`` or ``ValueError`` before any I/O."""
        rows = _listed(records)
        kind = _common_type(rows)
        if kind is bytes:
            return cls(rows, list(accumulate(map(len, rows))))
        if kind is not Record:
            rows = [row if isinstance(row, Record) else _record(row) for row in rows]
        return cls._of_records(rows)

    @classmethod
    def _of_records(cls, records: Sequence[Record]) -> Self:
        values = _bytes("value", [record.value for record in records])
        keys = _unless_absent(_bytes("key", [record.key for record in records]))
        if not _has_more(records):
            return cls(values, None, keys)
        given = [record.headers for record in records]
        headers = [check_headers(each) if each else () for each in given] if any(given) else None
        times = [None if record.timestamp is None else to_milliseconds(record.timestamp) for record in records]
        return cls(
            values,
            None,
            keys,
            headers,
            _unless_absent(times),
            _unless_absent([record.partition for record in records]),
            _unless_absent([record.topic for record in records]),
        )

    def __len__(self) -> int:
        return len(self.values)

    def uses(self) -> tuple[bool, bool, bool, bool]:
        """Return whether there are tombstones, keys, headers, timestamps."""
        return None in self.values, self.keys is not None, self.headers is not None, self.timestamps is not None

    def _lengths(self) -> Iterator[Sequence[int]]:
        """Yield the bytes of each record's value, then of its key, then of its headers."""
        yield _lengths(self.values)
        if self.keys is not None:
            yield _lengths(self.keys)
        if self.headers is not None:
            yield list(map(size_of_headers, self.headers))

    @property
    def sizes(self) -> Sequence[int]:
        """The bytes of each record's value, key and headers."""
        return reduce(lambda some, more: list(map(add, some, more)), self._lengths())

    @property
    def ends(self) -> Sequence[int]:
        """The cumulative bytes of the records."""
        if self._ends is None:
            self._ends = list(accumulate(self.sizes))
        return self._ends

    def pick(self, rows: Sequence[int]) -> Self:
        """Return the columns of these rows."""
        if len(rows) == len(self.values):
            return self
        pick = _picker(rows)
        columns = (self.keys, self.headers, self.timestamps, self.partitions, self.topics)
        picked = [None if column is None else pick(column) for column in columns]
        return type(self)(pick(self.values), None, *picked)

    def arrow(self, names: Sequence[str]) -> Mapping[str, pyarrow.Array]:
        """Return nothing: these columns are not Arrow arrays."""
        return {}


def _picker(rows: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if isinstance(rows, range) and rows.step == 1:
        return itemgetter(slice(rows.start, rows.stop))
    return lambda column: [column[row] for row in rows]


def cut(columns: SendColumns, most: int, most_bytes: int) -> Iterator[range]:
    """Yield ranges of at most ``most`` records and ``most_bytes``. A larger record gets its own range."""
    if len(columns) <= most and columns.size <= most_bytes:
        yield range(len(columns))
        return
    ends, first = columns.ends, 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        fits = bisect_right(ends, before + most_bytes, first)
        last = min(first + most, max(first + 1, fits))
        yield range(first, last)
        first = last


def rows_by(column: Sequence[T], rows: Iterable[int]) -> dict[T, Sequence[int]]:
    """Return the rows of each value of a column, in order."""
    found: defaultdict[T, list[int]] = defaultdict(list)
    for row, value in zip(rows, column, strict=True):
        found[value].append(row)
    return dict(found)


def _common_type(rows: Sequence[object]) -> type[object] | None:
    """Return the common type of all rows; None if they differ, ``bytes`` if there are none."""
    kind = type(rows[0]) if rows else bytes
    return kind if countOf(map(type, rows), kind) == len(rows) else None


def _has_more(records: Iterable[Record]) -> bool:
    """Return whether any record has more than a value and a key."""
    for each in records:
        if each.headers or each.timestamp is not None or each.partition is not None or each.topic is not None:
            return True
    return False


def _bytes(what: str, column: list[bytes | None]) -> list[bytes | None]:
    if _BYTES.issuperset(map(type, column)):
        return column
    return [check_bytes(what, each) for each in column]


def _unless_absent(column: list[T | None]) -> list[T | None] | None:
    if column and column[0] is not None:  # counting None among other objects is slow
        return column
    return None if column.count(None) == len(column) else column


def _lengths(column: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:  # searching for None first would double the time
        return [0 if each is None else len(each) for each in column]
