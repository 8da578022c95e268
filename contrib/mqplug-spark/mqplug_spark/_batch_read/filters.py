"""Filters of a query that spare a read: partitions that nobody asks for, and what lies before a time or around ids.

What they leave out cannot match. All other filters, and those that leave in what does not match, remain for Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from mqplug import Client, InvalidMessageId, MessageId, Position, after, at_time, before
from mqplug_spark._ranges.read_range import ReadRange

ONE_TIME: Final = frozenset({"kafka", "rocksmq"})  # backends that search by the timestamp, and not by another time

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, allowed: value in allowed,
}
_NEVER_NULL: Final = frozenset({"topic", "partition"})


@attrs.frozen
class RowFilter:
    """What a query asks for: partitions by comparisons, rows from ``since_ms`` on, and ids."""

    partitions: tuple[tuple[str, Any], ...] = ()
    since_ms: int | None = None
    ids: tuple[MessageId, ...] | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether rows of a partition can match."""
        if not all(_COMPARISONS[kind](partition, value) for kind, value in self.partitions):
            return False
        return self.ids is None or any(each.log.topic == topic and each.log.partition == partition for each in self.ids)

    def adding(self, each: Any) -> tuple[RowFilter, bool]:
        """Return the filter with one of Spark's added as far as it helps, and whether that is the whole of it."""
        kind = type(each).__name__
        column: tuple[str, ...] = getattr(each, "attribute", ())
        value: Any = getattr(each, "value", None)
        if kind == "IsNotNull":
            return self, len(column) == 1 and column[0] in _NEVER_NULL
        if column == ("partition",) and kind in _COMPARISONS and _whole(value):
            return attrs.evolve(self, partitions=(*self.partitions, (kind, value))), True
        if column == ("timestamp",) and kind in {"EqualTo", "GreaterThan", "GreaterThanOrEqual"}:
            return self._since(value), False
        if column == ("id",) and kind in {"EqualTo", "In"}:
            return self._of_ids(value if kind == "In" else (value,)), False
        return self, False

    def _since(self, value: object) -> RowFilter:
        if not isinstance(value, datetime) or value.tzinfo is None:
            return self
        milliseconds = int(value.timestamp() * 1000) - 1  # one less, since a float may have rounded up
        return attrs.evolve(self, since_ms=max(0, milliseconds, self.since_ms or 0))

    def _of_ids(self, texts: Iterable[object]) -> RowFilter:
        """Return the filter with ids. Texts that are none match no row."""
        found = set()
        for text in texts:
            try:
                found.add(MessageId.parse(text))  # type: ignore[arg-type]
            except (InvalidMessageId, TypeError):
                continue
        return attrs.evolve(self, ids=tuple(found if self.ids is None else found & set(self.ids)))


def _whole(value: object) -> bool:
    """Return whether a value is a number, or several of them. Null compares otherwise than None does."""
    values = value if isinstance(value, list | tuple) else [value]
    return all(type(each) is int for each in values)


def use_filters(filters: Iterable[Any]) -> tuple[RowFilter, list[Any]]:
    """Return what Spark's filters spare a read, and those that Spark still has to apply."""
    wanted, remaining = RowFilter(), []
    for each in filters:
        wanted, whole = wanted.adding(each)
        if not whole:
            remaining.append(each)
    return wanted, remaining


def narrow(client: Client, ranges: Iterable[ReadRange], wanted: RowFilter) -> list[ReadRange]:
    """Return the ranges without what cannot match."""
    kept = [each for each in ranges if wanted.wants(each.topic, each.partition)]
    if wanted.since_ms is not None and client.backend in ONE_TIME:
        kept = _since(client, kept, wanted.since_ms)
    return kept if wanted.ids is None else _around(client, kept, wanted.ids)


def _since(client: Client, ranges: list[ReadRange], milliseconds: int) -> list[ReadRange]:
    """Return the ranges from the first message that is as late as this. All before it are earlier."""
    partitions: dict[str, list[int]] = {}
    for each in ranges:
        partitions.setdefault(each.topic, []).append(each.partition)
    starts = {
        topic: client.resolve(topic, at_time(milliseconds), partitions=numbers) for topic, numbers in partitions.items()
    }
    return [part for each in ranges for part in _cut(each, starts[each.topic][each.partition], None)]


def _around(client: Client, ranges: list[ReadRange], ids: tuple[MessageId, ...]) -> list[ReadRange]:
    """Return the ranges from the first to the last of these ids in each."""
    kept = []
    for each in ranges:
        log = Position.parse(each.start).log
        mine = sorted(one for one in ids if one.log is log)
        if mine:
            first, last = (
                client.resolve(each.topic, start, missing="next")[each.partition]
                for start in (before(mine[0]), after(mine[-1]))
            )
            kept += _cut(each, first, last)
    return kept


def _cut(planned: ReadRange, first: Position, last: Position | None) -> list[ReadRange]:
    """Return the part of a range between two positions, if there is any."""
    start, until = Position.parse(planned.start), Position.parse(planned.until)
    if first.log is not start.log:
        return [planned]  # made again meanwhile: the task says so
    start, until = max(start, first), until if last is None else min(until, last)
    return [ReadRange(planned.topic, planned.partition, str(start), str(until))] if start < until else []
