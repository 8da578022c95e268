"""Spark's rows as record batches for mqplug.

The error for a row that cannot be sent names its number and column, but never shows its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as functions

from mqplug import InvalidRecord, MessageTooLarge

pc: Any = functions  # pyarrow creates them at import, so type checkers know few of them

_COLUMNS: Final = ("value", "key", "headers", "timestamp", "partition")
_LAST_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999


class WrittenRows:
    """The rows of one task, in batches of one topic each.

    ``partitions`` returns the current number of a topic's partitions.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        task: int,
        topic: str | None,
        max_bytes: int,
        partitions: Callable[[str], int],
    ) -> None:
        self._batches = batches
        self._task = task
        self.topic = topic
        """The topic of all rows; None if a column names each row's."""
        self._max_bytes = max_bytes
        self._partitions = partitions
        self._known: dict[str, int] = {}
        self.count = 0
        """The number of rows in the batches taken until now."""

    def __iter__(self) -> Iterator[TopicRows]:
        for batch in self._batches:
            if batch.num_rows:
                first, self.count = self.count, self.count + batch.num_rows
                for rows in self._by_topic(batch, first):
                    self._check(rows)
                    yield rows

    def _by_topic(self, batch: pa.RecordBatch, first: int) -> Iterator[TopicRows]:
        """Yield the rows of each topic."""
        there = [name for name in _COLUMNS if name in batch.schema.names]
        columns = pa.record_batch([_sent(name, batch.column(name)) for name in there], names=there)
        if self.topic is not None:
            yield TopicRows(self.topic, columns, range(first, first + len(columns)))
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise self._invalid("topic", "is null", first + _first(pc.is_null(topics)))
        for topic in topics.unique().to_pylist():
            rows = pc.indices_nonzero(pc.equal(topics, topic))
            whole = len(rows) == len(topics)
            yield TopicRows(topic, columns if whole else columns.take(rows), _numbers(rows, first))

    def _check(self, rows: TopicRows) -> None:
        """Raise ``InvalidRecord`` or ``MessageTooLarge`` if a row cannot be sent."""
        names = rows.columns.schema.names
        if "partition" in names:
            self._check_partitions(rows)
        if "timestamp" in names:
            self._check_timestamps(rows)
        if "headers" in names:
            self._check_headers(rows)
        if _largest_possible(rows.columns) > self._max_bytes:
            self._check_sizes(rows)

    def _check_partitions(self, rows: TopicRows) -> None:
        column = rows.columns.column("partition")
        if column.null_count == len(column):
            return
        most = pc.max(column).as_py()
        if most >= self._known.get(rows.topic, 0):
            self._known[rows.topic] = self._partitions(rows.topic)
        there = self._known[rows.topic]
        if most >= there or pc.min(column).as_py() < 0:
            row = _first(pc.or_(pc.less(column, 0), pc.greater_equal(column, there)))
            said = f"is {column[row]}, but {rows.topic!r} has partitions 0 to {there - 1}"
            raise self._invalid("partition", said, rows.numbers[row])

    def _check_timestamps(self, rows: TopicRows) -> None:
        times = rows.columns.column("timestamp").cast(pa.int64())
        outside = pc.or_(pc.less(times, 0), pc.greater(times, _LAST_TIME_MS * 1000 + 999))
        if pc.any(outside).as_py():
            raise self._invalid("timestamp", "is not between the years 1970 and 9999", rows.numbers[_first(outside)])

    def _check_headers(self, rows: TopicRows) -> None:
        column = rows.columns.column("headers")
        pairs = column.flatten()
        if pairs.null_count or (len(pairs) and pairs.field("key").null_count):
            row = next(row for row, each in enumerate(column) if _lacks_name(each.as_py()))
            raise self._invalid("headers", "has a header without a name", rows.numbers[row])

    def _check_sizes(self, rows: TopicRows) -> None:
        sizes = _sizes(rows.columns)
        largest = max(sizes)
        if largest > self._max_bytes:
            row = rows.numbers[sizes.index(largest)]
            raise MessageTooLarge(
                f"{self._place('value', row)} makes a message of {largest} bytes with its key and headers; "
                f"the limit is {self._max_bytes}",
                topic=rows.topic, operation="write",
            )  # fmt: skip

    def _invalid(self, column: str, said: str, row: int) -> InvalidRecord:
        return InvalidRecord(
            f"{self._place(column, row)} {said}", operation="write", fix="Correct the row, or filter it out"
        )

    def _place(self, column: str, row: int) -> str:
        return f"column {column!r} of row {row} of task {self._task}"


class TopicRows:
    """Rows of a task for one topic: columns that ``send_many`` accepts, and the rows' numbers in the task."""

    def __init__(self, topic: str, columns: pa.RecordBatch, numbers: range | list[int]) -> None:
        self.topic = topic
        self.columns = columns
        self.numbers = numbers


def _sent(name: str, column: pa.Array) -> pa.Array:
    """Convert a column to a type that can be sent."""
    if name in {"value", "key"} and not pa.types.is_binary(column.type):
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        return column.cast(pa.large_binary() if large else pa.binary())
    return column


def _first(found: pa.Array) -> int:
    row: int = pc.index(found, True).as_py()
    return row


def _numbers(rows: pa.Array, first: int) -> range | list[int]:
    numbers: list[int] = pc.add(rows.cast(pa.int64()), first).to_pylist()
    return numbers


def _lacks_name(headers: list[dict[str, Any] | None] | None) -> bool:
    return any(pair is None or pair["key"] is None for pair in headers or ())


def _largest_possible(columns: pa.RecordBatch) -> int:
    """Return an upper bound for the bytes of the largest row, at little cost."""
    there = [name for name in ("value", "key") if name in columns.schema.names]
    most = sum(pc.max(pc.binary_length(columns.column(name))).as_py() or 0 for name in there)
    headers: int = columns.column("headers").nbytes if "headers" in columns.schema.names else 0
    return most + headers


def _sizes(columns: pa.RecordBatch) -> list[int]:
    """Return the size of each row in bytes."""
    sizes = [_lengths(columns.column(name)) for name in ("value", "key") if name in columns.schema.names]
    if "headers" in columns.schema.names:
        sizes.append([_size_of(headers) for headers in columns.column("headers").to_pylist()])
    return [sum(each) for each in zip(*sizes, strict=True)]


def _lengths(column: pa.Array) -> list[int]:
    lengths: list[int] = pc.fill_null(pc.binary_length(column), 0).to_pylist()
    return lengths


def _size_of(headers: list[dict[str, Any]] | None) -> int:
    return sum(len(pair["key"].encode()) + len(pair["value"] or b"") for pair in headers or ())
