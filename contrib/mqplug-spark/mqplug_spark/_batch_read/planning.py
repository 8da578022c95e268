"""Plans the ranges that tasks read, from the options and what the topics hold now."""

from __future__ import annotations

from mqplug import Client, ConfigError, Position, TopicNotFound
from mqplug_spark._batch_read.filters import RowFilter, narrow
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.lost import what_is_left
from mqplug_spark._ranges.read_range import ReadRange
from mqplug_spark._ranges.resolving import resolve_bound
from mqplug_spark._ranges.selected_watermarks import selected_watermarks
from mqplug_spark._ranges.splitting import split_ranges


def plan_ranges(client: Client, options: ReadOptions, asked: RowFilter | None = None) -> list[ReadRange]:
    """Return the ranges to read, ordered by topic and partition; none for a partition without messages to read.

    Ranges may leave out what ``asked``, a query's filters, cannot match.
    """
    marks = selected_watermarks(client, options.topics)
    if not marks:
        raise TopicNotFound(
            f"no topic matches subscribePattern, {options.topics.pattern!r}",
            operation="plan a Spark read", fix="The pattern is a regular expression of Python for the whole name",
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
                continue  # what was to be read up to there is gone, or no reader may read on from there yet
            _check_order(wanted, until)
            start = what_is_left(client, wanted, mark, options, until)
            if start < until:
                ranges.append(ReadRange(topic, partition, str(start), str(until)))
    return split_ranges(client, ranges if asked is None else narrow(client, ranges, asked), options)


def _check_order(start: Position, until: Position) -> None:
    if until < start:
        raise ConfigError(
            f"the read would begin at {start!r}, behind its end at {until!r}",
            topic=start.log.topic, fix="Let the end lie behind the start",
        )  # fmt: skip
