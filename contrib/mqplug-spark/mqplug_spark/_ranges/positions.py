"""What the options of a read mean now: the selected partitions, and the start and end in each."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from mqplug import Client, ConfigError, Position, Start, Watermarks, matching
from mqplug.spi import Earliest, Latest
from mqplug_spark._options.bounds import Bound, Offset, Point, Time
from mqplug_spark._options.read_options import Strategy
from mqplug_spark._options.topic_selection import TopicSelection
from mqplug_spark._options.write_options import MARKS_TOPIC

TopicMarks = Mapping[str, Mapping[int, Watermarks]]

log = logging.getLogger("mqplug.spark")

TopicPositions = Mapping[str, Mapping[int, Position]]


def selected_watermarks(client: Client, selection: TopicSelection) -> TopicMarks:
    """Return the watermarks by topic and partition, in the order of the selection.

    Raise ``TopicNotFound`` for a named topic that does not exist. A pattern may match no topic.
    """
    names = selected_names(client, selection)
    marks: TopicMarks = client.watermarks(names) if names else {}
    if selection.partitions is None:
        return {topic: marks[topic] for topic in names}
    return {topic: _assigned(topic, marks[topic], selection.partitions[topic]) for topic in names}


def selected_names(client: Client, selection: TopicSelection) -> tuple[str, ...]:
    """Return the names of the selected topics. A pattern's topics are those that match now, sorted."""
    if selection.pattern is None:
        return selection.names
    return tuple(name for name in client.topics(matching(selection.pattern)) if name != MARKS_TOPIC)


def _assigned(topic: str, marks: Mapping[int, Watermarks], wanted: tuple[int, ...]) -> Mapping[int, Watermarks]:
    missing = set(wanted) - set(marks)
    if missing:
        raise ConfigError(
            f"assign names partition {min(missing)} of {topic!r}, which has {len(marks)}",
            topic=topic, fix="Remove it, or add partitions to the topic",
        )  # fmt: skip
    return {partition: marks[partition] for partition in wanted}


def resolve_bound(
    client: Client, bound: Bound, marks: TopicMarks, strategy: Strategy | None = None, *, lenient: bool = False
) -> TopicPositions:
    """Return the position that a bound means in each partition, which may be before the low watermark.

    The latest is the point up to which consumers may read: on Kafka, before the first open transaction. A time after
    all messages means the latest. For a start, it raises ``ConfigError`` unless the strategy is "latest", or none is
    set and the time is relative. A point beyond the end of the log raises it too, or means the latest if ``lenient``.
    """
    bound.check_topics(list(marks))
    points = {topic: _points(bound, topic, marks[topic]) for topic in marks}
    at_times = _at_times(client, points)
    return {
        topic: {
            partition: _of_time(bound, point, marks[topic][partition], at_times[topic, partition], strategy)
            if isinstance(point, Time)
            else _at(bound, point, marks[topic][partition], lenient)
            for partition, point in points[topic].items()
        }
        for topic in marks
    }


def _points(bound: Bound, topic: str, marks: Mapping[int, Watermarks]) -> Mapping[int, Point]:
    """Return a point for each partition. JSON must name exactly the partitions that are read."""
    if bound.everywhere is not None:
        return dict.fromkeys(marks, bound.everywhere)
    points = bound.each[topic]
    missing, extra = set(marks) - set(points), set(points) - set(marks)
    if missing:
        raise ConfigError(
            f"{bound.option} does not name partition {min(missing)} of {topic!r}",
            topic=topic, fix=f"Name every partition that is read: {', '.join(map(str, sorted(marks)[:20]))}",
        )  # fmt: skip
    if extra:
        raise ConfigError(
            f"{bound.option} names partition {min(extra)} of {topic!r}, which is not one of the {len(marks)} "
            "partitions that are read", topic=topic, fix="Remove it",
        )  # fmt: skip
    return {partition: points[partition] for partition in marks}


def _at_times(client: Client, points: Mapping[str, Mapping[int, Point]]) -> dict[tuple[str, int], Position]:
    """Return the position of each partition whose point is a time, with one request for each time of a topic."""
    now_ms = time.time_ns() // 1_000_000
    wanted: dict[Start, dict[str, list[int]]] = {}
    for topic, each in points.items():
        for partition, point in each.items():
            if isinstance(point, Time):
                wanted.setdefault(point.start(now_ms), {}).setdefault(topic, []).append(partition)
    return {
        (topic, partition): position
        for start, topics in wanted.items()
        for topic, partitions in topics.items()
        for partition, position in client.resolve(topic, start, partitions=partitions).items()
    }


def _at(bound: Bound, point: Earliest | Latest | Offset | Position, mark: Watermarks, lenient: bool) -> Position:
    match point:
        case Earliest():
            return mark.low
        case Latest():
            return mark.readable
        case Offset():
            return _not_beyond(bound, _offset(bound, point.number, mark), mark, lenient)
        case Position():
            return _not_beyond(bound, _same_log(bound, point, mark), mark, lenient)


def _of_time(bound: Bound, point: Time, mark: Watermarks, found: Position, strategy: Strategy | None) -> Position:
    if found.log is not mark.high.log:
        raise ConfigError(
            f"the topic {mark.high.log.topic!r} was deleted and created again during planning",
            topic=mark.high.log.topic, fix="Read it again",
        )  # fmt: skip
    if found < mark.readable:
        return found
    if bound.option.startswith("starting") and strategy != "latest" and (strategy == "error" or not point.relative):
        where = mark.high.log
        raise ConfigError(
            f"{bound.option}: no message of {where.topic}[{where.partition}] is as late as the given time",
            topic=where.topic, fix="Choose an earlier time, or set startingOffsetsByTimestampStrategy=latest",
        )  # fmt: skip
    return mark.readable


def _not_beyond(bound: Bound, position: Position, mark: Watermarks, lenient: bool) -> Position:
    if position > mark.high and lenient:
        log.warning("failOnDataLoss=false: %s is %r, beyond the end of the log, %r", bound.option, position, mark.high)
        return mark.readable
    if position > mark.high:
        raise ConfigError(
            f"{bound.option} is {position!r}, which is beyond the end of the log, {mark.high!r}",
            topic=mark.high.log.topic,
            fix="Name a stored message, or -1 for the latest. failOnDataLoss=false turns such an end into the latest",
        )  # fmt: skip
    return position


def _offset(bound: Bound, offset: int, mark: Watermarks) -> Position:
    where = mark.high.log
    if len(mark.high.coordinates) != 1:
        raise ConfigError(
            f"{bound.option} is the offset {offset}, but {where.backend} has no offsets: its ids have several parts",
            backend=where.backend, topic=where.topic, fix="Write the text of a position or message id",
        )  # fmt: skip
    return Position(where, (offset,))


def _same_log(bound: Bound, position: Position, mark: Watermarks) -> Position:
    if position.log is not mark.high.log:
        raise ConfigError(
            f"{bound.option} has {position!r} for {mark.high.log!r}, but it belongs to another log, "
            f"or to a topic that was deleted and created again",
            topic=mark.high.log.topic, fix="Use positions and ids of the current topic",
        )  # fmt: skip
    return position
