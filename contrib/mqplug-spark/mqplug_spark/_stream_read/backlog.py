"""The backlog of a query: the current messages of its partitions after the offset that it has reached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from mqplug import Client, Position, TopicNotFound, Watermarks
from mqplug_spark._options.topic_selection import TopicSelection
from mqplug_spark._ranges.data_loss import LossReports, recreated
from mqplug_spark._ranges.positions import selected_names, selected_watermarks
from mqplug_spark._ranges.read_range import Partition
from mqplug_spark._stream_read.stream_offsets import StreamOffset

Marks = Mapping[Partition, Watermarks]
Count = Callable[[Position, Position], int]


@attrs.frozen
class Backlog:
    """The unread messages of one partition, from ``begin`` to ``until``, which is before any open transaction."""

    begin: Position
    until: Position


def backlogs(
    start: StreamOffset,
    marks: Marks,
    losses: LossReports,
    count: Count | None = None,
    at_end: Collection[Partition] = (),
) -> dict[Partition, Backlog]:
    """Return the backlog after an offset. A partition that is not in it is read from its earliest message.

    A partition that is gone, or ends before the offset, has no backlog: the query keeps its position there. If the
    query was ``at_end`` of a partition before, nothing is lost if the log now begins later: some backends begin a new
    part of a log after an outage, and drop the previous part if it is empty.
    """
    for partition in sorted(start.reached.keys() - marks.keys()):
        losses.gone(partition, start.reached[partition])
    found = {}
    for partition, mark in sorted(marks.items()):
        reached_or_none = start.reached.get(partition)
        if reached_or_none is None or (partition in at_end and _begins_after(reached_or_none, mark)):
            found[partition] = Backlog(mark.low, mark.readable)
        elif backlog := _remaining(partition, reached_or_none, mark, losses, count):
            found[partition] = backlog
    return found


def _begins_after(reached: Position, mark: Watermarks) -> bool:
    return reached.log is mark.low.log and reached < mark.low


def _remaining(
    partition: Partition, reached: Position, mark: Watermarks, losses: LossReports, count: Count | None
) -> Backlog | None:
    if reached.log is not mark.high.log:
        raise recreated(partition, reached)
    if reached > mark.high:
        what = f"{partition} ends at {mark.high!r}, before {reached!r}, up to which the query has read it"
        losses.report(partition, what, log=reached.log, low=mark.low)
        return None
    if reached < mark.low:
        losses.removed(partition, reached, mark.low, count and count(reached, mark.low))
        return Backlog(mark.low, mark.readable)
    return Backlog(reached, max(reached, mark.readable))


def not_beyond(found: Mapping[Partition, Backlog], target: Mapping[Partition, Position]) -> dict[Partition, Backlog]:
    """Return the backlog up to a target. Partitions that the target does not name are left for the next query."""
    return {
        partition: attrs.evolve(backlog, until=max(backlog.begin, min(backlog.until, target[partition])))
        for partition, backlog in found.items()
        if partition in target
    }


def end_offset(
    start: StreamOffset, ends: Mapping[Partition, Position], found: Mapping[Partition, Backlog], *, first: bool = False
) -> StreamOffset:
    """Return the end offset of a batch that reads up to ``ends``; ``start`` itself if it reads nothing.

    The ``first`` batch of a query exists in any case: its end records where each partition began, because Spark does
    not.
    """
    if first:
        begun = {**start.reached, **{partition: found[partition].begin for partition in ends}}
        return StreamOffset({**start.reached, **ends}, begun)
    if all(start.reached.get(partition) == end for partition, end in ends.items()):
        return start
    begins = {partition: found[partition].begin for partition in ends}
    elsewhere = {each: begin for each, begin in begins.items() if start.reached.get(each) != begin}
    return StreamOffset({**start.reached, **ends}, elsewhere)


def present(client: Client, selection: TopicSelection, known: Collection[str] = ()) -> dict[Partition, Watermarks]:
    """Return the watermarks of all partitions that are read.

    Raise ``TopicNotFound`` for a missing topic, unless it is ``known`` to the query: then it is a loss, and left out.
    """
    try:
        found = selected_watermarks(client, selection)
    except TopicNotFound:
        found = _one_by_one(client, selection, known)
    return {Partition(topic, number): mark for topic, marks in found.items() for number, mark in marks.items()}


def _one_by_one(
    client: Client, selection: TopicSelection, known: Collection[str]
) -> dict[str, Mapping[int, Watermarks]]:
    found: dict[str, Mapping[int, Watermarks]] = {}
    for name in selected_names(client, selection):
        partitions = None if selection.partitions is None else {name: selection.partitions[name]}
        try:
            found |= selected_watermarks(client, TopicSelection(names=(name,), partitions=partitions))
        except TopicNotFound:
            if selection.pattern is None and name not in known:
                raise
    return found
