"""Finds the first message that differs between two partitions, by reading both side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

import mqplug
from mqplug_cli._measuring.checksums import column_of

EXCERPT_CHARACTERS = 40


@attrs.frozen
class Difference:
    """The first pair of messages that differ. ``number`` counts from 0; an id is None where a side has ended."""

    partition: int
    number: int
    ids: tuple[mqplug.MessageId | None, mqplug.MessageId | None]
    fields: tuple[str, ...] = ()
    excerpts: tuple[str, str] = ("", "")  # of the first of the fields

    def __str__(self) -> str:
        where = f"partition {self.partition}, message {self.number:,}"
        mine, other = self.ids
        if mine is None or other is None:
            which, present = ("first", mine) if mine is not None else ("second", other)
            return f"{where}: only the {which} topic has it, as {present}"
        said = " against ".join(self.excerpts)
        return f"{where}: another {' and '.join(self.fields)}: {said} ({mine} against {other})"


def first_difference(
    partition: int, mine: Iterator[mqplug.Batch], other: Iterator[mqplug.Batch], fields: Sequence[str]
) -> Difference | None:
    """Return the first difference of two runs of messages, or None."""
    left, right = _Cursor(mine), _Cursor(other)
    number = 0
    while True:
        size = min(left.fill(), right.fill())
        if size == 0:
            break
        row = _first_row(left, right, size, fields)
        if row is not None:
            return _difference(partition, number + row, left.skip(row), right.skip(row), fields)
        left.skip(size)
        right.skip(size)
        number += size
    ids = left.id, right.id
    return Difference(partition, number, ids) if ids != (None, None) else None


class _Cursor:
    """A place in a run of batches."""

    def __init__(self, batches: Iterator[mqplug.Batch]) -> None:
        self._batches = batches
        self._batch = next(batches, None)
        self._row = 0

    def fill(self) -> int:
        """Return how many messages are at hand; 0 only at the end."""
        if self._batch is not None and self._row == len(self._batch):
            self._batch, self._row = next(self._batches, None), 0
        return 0 if self._batch is None else len(self._batch) - self._row

    def skip(self, count: int) -> _Cursor:
        self._row += count
        return self

    def column(self, field: str, size: int) -> Sequence[object]:
        return () if self._batch is None else column_of(self._batch, field)[self._row : self._row + size]

    @property
    def id(self) -> mqplug.MessageId | None:
        return None if self._batch is None else self._batch.id(self._row)


def _first_row(left: _Cursor, right: _Cursor, size: int, fields: Sequence[str]) -> int | None:
    rows = []
    for field in fields:
        mine, other = left.column(field, size), right.column(field, size)
        if mine != other:
            rows.append(next(row for row in range(size) if mine[row] != other[row]))
    return min(rows, default=None)


def _difference(partition: int, number: int, left: _Cursor, right: _Cursor, fields: Sequence[str]) -> Difference:
    pairs = {field: (left.column(field, 1)[0], right.column(field, 1)[0]) for field in fields}
    unlike = tuple(field for field, (mine, other) in pairs.items() if mine != other)
    mine, other = pairs[unlike[0]]
    return Difference(partition, number, (left.id, right.id), unlike, (_excerpt(mine), _excerpt(other)))


def _excerpt(value: object) -> str:
    text = repr(value[: 2 * EXCERPT_CHARACTERS] if isinstance(value, bytes) else value)
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[:EXCERPT_CHARACTERS]}…"
