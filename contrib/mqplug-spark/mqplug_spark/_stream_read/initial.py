"""Where a new query begins."""

from __future__ import annotations

from mqplug import EARLIEST, Client, ConfigError, Position, Watermarks
from mqplug_spark._options.bounds import Bound
from mqplug_spark._options.points import Offset, Point
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.lost import what_is_left
from mqplug_spark._ranges.resolving import resolve_bound
from mqplug_spark._stream_read.backlog import Marks
from mqplug_spark._stream_read.data_loss import LossReports
from mqplug_spark._stream_read.foreign_checkpoint import Places, read_places
from mqplug_spark._stream_read.stream_offsets import Partition, StreamOffset
from mqplug_spark._stream_read.subscription import present


def initial_offset(client: Client, options: ReadOptions, losses: LossReports) -> StreamOffset:
    """Return the place that the options name in each partition. One that retention removed is a loss."""
    marks = present(client, options.topics)
    bound = options.starting
    if options.checkpoint is not None:
        bound = _taken_over(options.checkpoint, read_places(options.checkpoint), marks, losses)
    by_topic: dict[str, dict[int, Watermarks]] = {}
    for (topic, number), mark in marks.items():
        by_topic.setdefault(topic, {})[number] = mark
    found = resolve_bound(client, bound, by_topic, options.timestamp_strategy)
    return StreamOffset({each: _left(client, found[each.topic][each.number], each, marks, options) for each in marks})


def _left(client: Client, wanted: Position, partition: Partition, marks: Marks, options: ReadOptions) -> Position:
    return what_is_left(client, wanted, marks[partition], options)


def _taken_over(path: str, places: Places, marks: Marks, losses: LossReports) -> Bound:
    """Return the start at the places of a checkpoint; at EARLIEST in partitions that the old query did not know."""
    topics = {partition.topic for partition in marks}
    for partition in sorted(places.keys() - marks.keys()):
        if partition.topic not in topics:
            raise ConfigError(
                f"startingOffsets: the checkpoint {path!r} is of a query that reads {partition.topic!r}, too",
                topic=partition.topic, operation="plan a stream", fix="Read the same topics",
            )  # fmt: skip
        losses.report(partition, f"{partition} is gone; the stopped query read it up to {places[partition]}")
    each: dict[str, dict[int, Point]] = {topic: {} for topic in topics}
    for partition in marks:
        known = partition in places
        each[partition.topic][partition.number] = Offset(places[partition]) if known else EARLIEST
    return Bound("startingOffsets", each=each)
