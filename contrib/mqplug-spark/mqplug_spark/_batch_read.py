"""Batch reads: planned once, in the driver, from the options and the current contents; each task reads one range.

A query's filters exclude partitions, messages before a time, and messages outside a range of ids, but no message that
matches. Spark applies the filters that cannot be used here, and those that let other messages through.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql.datasource import DataSourceReader, InputPartition

from mqplug import Client, ConfigError, InvalidMessageId, MessageId, Position, TopicNotFound, after, at_time, before
from mqplug_spark._clients import ask
from mqplug_spark._columns import ReadColumns
from mqplug_spark._errors import cut_short, cut_short_while_reading
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.data_loss import what_is_left
from mqplug_spark._ranges.positions import resolve_bound, selected_watermarks
from mqplug_spark._ranges.read_range import ReadRange, split_ranges
from mqplug_spark._ranges.task_rows import task_rows

if TYPE_CHECKING:
    import pyarrow as pa

ONE_TIME: Final = frozenset({"kafka", "rocksmq"})  # backends whose search by time uses the timestamp

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


class MqplugReader(DataSourceReader):
    """A batch reader, which Spark pickles for its tasks: it holds only settings."""

    def __init__(self, options: ReadOptions, columns: ReadColumns) -> None:
        self._options = options
        self._columns = columns
        self._asked: RowFilter | None = None
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def use(self, filters: Iterable[Any]) -> list[Any]:
        """Use the filters of a query, and return those that Spark must apply itself."""
        self._asked, remaining = use_filters(filters)
        return remaining

    @cut_short
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read, one for each task. Only this call looks up what the topics hold."""
        options = self._options
        ranges = ask(options.backend, lambda client: plan_ranges(client, options, self._asked))
        return [InputPartition(planned) for planned in ranges]

    @cut_short_while_reading
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range. Runs in a task."""
        return task_rows(partition, self._options, self._columns)


class _PushFilters:
    """``pushFilters`` of a reader, which Spark calls only while ``spark.sql.python.filterPushdown.enabled`` is true.

    While that is false, Spark refuses a reader whose class overrides the method, which it detects by ``__func__``.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", print))  # since PySpark 4.1

    def __init__(self, reader: MqplugReader) -> None:
        self._reader = reader

    @cut_short
    def __call__(self, filters: Iterable[Any]) -> list[Any]:
        return self._reader.use(filters)


def plan_ranges(client: Client, options: ReadOptions, asked: RowFilter | None = None) -> list[ReadRange]:
    """Return the ranges to read, ordered by topic and partition. A partition without messages to read has none.

    Ranges may leave out messages that ``asked``, a query's filters, cannot match.
    """
    marks = selected_watermarks(client, options.topics)
    if not marks:
        raise TopicNotFound(
            f"no topic matches subscribePattern {options.topics.pattern!r}",
            operation="plan a Spark read", fix="Write a Python regular expression that matches the whole name",
        )  # fmt: skip
    starts = resolve_bound(client, options.starting, marks, options.timestamp_strategy)
    ends = resolve_bound(client, options.ending, marks, lenient=not options.fail_on_data_loss)
    ranges = []
    for topic in marks:
        for partition, mark in sorted(marks[topic].items()):
            if asked is not None and not asked.wants(topic, partition):
                continue
            wanted, until = starts[topic][partition], ends[topic][partition]
            if until < wanted and (wanted == mark.low or until == mark.readable):
                continue  # the messages before the end are gone, or those after it are not readable yet
            _check_order(wanted, until)
            start = what_is_left(client, wanted, mark, options, until)
            if start < until:
                ranges.append(ReadRange(topic, partition, start, until))
    return split_ranges(client, ranges if asked is None else narrow(client, ranges, asked), options)


def _check_order(start: Position, until: Position) -> None:
    if until < start:
        raise ConfigError(
            f"the read begins at {start!r}, after its end at {until!r}",
            topic=start.log.topic, fix="Choose an end after the start",
        )  # fmt: skip


@attrs.frozen
class RowFilter:
    """The filters of a query that a read can use: comparisons of the partition, a first time, and ids."""

    partitions: tuple[tuple[str, Any], ...] = ()
    since_ms: int | None = None
    ids: tuple[MessageId, ...] | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether rows of a partition can match."""
        if not all(_COMPARISONS[kind](partition, value) for kind, value in self.partitions):
            return False
        return self.ids is None or any(each.log.topic == topic and each.log.partition == partition for each in self.ids)

    def adding(self, each: Any) -> tuple[RowFilter, bool]:
        """Add one of Spark's filters as far as possible. Return the result, and whether it covers that filter fully."""
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
        milliseconds = int(value.timestamp() * 1000) - 1  # minus one, because the float may have been rounded up
        return attrs.evolve(self, since_ms=max(0, milliseconds, self.since_ms or 0))

    def _of_ids(self, texts: Iterable[object]) -> RowFilter:
        """Add ids. A text that is not an id matches no row."""
        found = set()
        for text in texts:
            try:
                found.add(MessageId.parse(text))  # type: ignore[arg-type]
            except (InvalidMessageId, TypeError):
                continue
        return attrs.evolve(self, ids=tuple(found if self.ids is None else found & set(self.ids)))


def _whole(value: object) -> bool:
    """Return whether a value is an int or a list of ints. SQL's null and Python's None compare differently."""
    values = value if isinstance(value, list | tuple) else [value]
    return all(type(each) is int for each in values)


def use_filters(filters: Iterable[Any]) -> tuple[RowFilter, list[Any]]:
    """Return the usable part of Spark's filters, and the filters that Spark must still apply."""
    wanted, remaining = RowFilter(), []
    for each in filters:
        wanted, whole = wanted.adding(each)
        if not whole:
            remaining.append(each)
    return wanted, remaining


def narrow(client: Client, ranges: Iterable[ReadRange], wanted: RowFilter) -> list[ReadRange]:
    """Narrow the ranges to messages that may match."""
    kept = [each for each in ranges if wanted.wants(each.topic, each.partition)]
    if wanted.since_ms is not None and client.backend in ONE_TIME:
        kept = _since(client, kept, wanted.since_ms)
    return kept if wanted.ids is None else _around(client, kept, wanted.ids)


def _since(client: Client, ranges: list[ReadRange], milliseconds: int) -> list[ReadRange]:
    """Start each range at its first message that is at least this late. All messages before it are earlier."""
    partitions: dict[str, list[int]] = {}
    for each in ranges:
        partitions.setdefault(each.topic, []).append(each.partition)
    starts = {
        topic: client.resolve(topic, at_time(milliseconds), partitions=numbers) for topic, numbers in partitions.items()
    }
    return [part for each in ranges for part in _cut(each, starts[each.topic][each.partition], None)]


def _around(client: Client, ranges: list[ReadRange], ids: tuple[MessageId, ...]) -> list[ReadRange]:
    """Narrow each range to the messages from the first to the last of these ids."""
    kept = []
    for each in ranges:
        log = each.start.log
        mine = sorted(one for one in ids if one.log is log)
        if mine:
            first, last = (
                client.resolve(each.topic, start, missing="next")[each.partition]
                for start in (before(mine[0]), after(mine[-1]))
            )
            kept += _cut(each, first, last)
    return kept


def _cut(planned: ReadRange, first: Position, last: Position | None) -> list[ReadRange]:
    """Return the part of a range between two positions, or no range if it is empty."""
    if first.log is not planned.start.log:
        return [planned]  # recreated since it was planned: the task raises the error
    start, until = max(planned.start, first), planned.until if last is None else min(planned.until, last)
    return [attrs.evolve(planned, start=start, until=until)] if start < until else []
