"""Ids of stored messages as spans: neighbours that follow each other in one batch are one span."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TypeVar, overload

from mqplug.spi import Numbers

T = TypeVar("T")

Span = tuple[int, int, int, int, int, int]
"""First row, count of rows, ledger, entry, index of the first row in its batch (-1 without one), size of the batch."""


class LazyList(Sequence[T]):
    """A list that is made when one of its items is wanted. Going through it does not make it."""

    __slots__ = ("_count", "_items", "_made")

    def __init__(self, count: int, items: Callable[[], Iterator[T]]) -> None:
        self._count = count
        self._items = items
        self._made: list[T] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if self._made is None:
            self._made = list(self._items())
        return self._made[index]

    def __iter__(self) -> Iterator[T]:
        return self._items() if self._made is None else iter(self._made)


def coordinates(spans: Sequence[Span], count: int) -> Sequence[Numbers]:
    """Return the coordinates of messages whose rows are those of the spans, in order."""
    return LazyList(count, lambda: chain.from_iterable(map(_coordinates, spans)))


def details(spans: Sequence[Span], count: int) -> Sequence[Numbers]:
    """Return the details of messages whose rows are those of the spans, in order."""
    return LazyList(count, lambda: chain.from_iterable(map(_details, spans)))


def rows(span: Span) -> Iterable[tuple[int, Numbers, Numbers]]:
    """Return row, coordinates and detail of each message of a span."""
    return zip(range(span[0], span[0] + span[1]), _coordinates(span), _details(span), strict=True)


def _coordinates(span: Span) -> Iterable[Numbers]:
    _, count, ledger, entry, index, _ = span
    return zip(repeat(ledger), repeat(entry), range(index, index + count), strict=False)


def _details(span: Span) -> Iterable[Numbers]:
    _, count, _, _, index, size = span
    return repeat((size,) if index >= 0 and size > 0 else (), count)


def doubt(spans: Sequence[Span], count: int, *, in_order: bool) -> str | None:
    """Return what is wrong with the ids of messages that were sent together; None if nothing is."""
    row = 0
    for first, length, ledger, entry, index, size in spans:
        if first != row or length < 1:
            return f"row {row} is missing, or there twice"
        if ledger >= 0 and (entry < 0 or index < -1 or (index >= 0 and index + length > size)):
            return f"no message is at {ledger}:{entry}:{index} of a batch of {size}"
        row += length
    if row != count:
        return f"there are {row} rows, not {count}"
    places = [span[2:5] for span in spans if span[2] >= 0]
    if len(set(places)) < len(places):
        return "two messages have one id"
    return "the ids are not ascending" if in_order and places != sorted(places) else None
