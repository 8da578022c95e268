"""Plans the ranges that tasks read, from the options and the watermarks of the topics. Makes no requests."""

from __future__ import annotations

from collections.abc import Mapping

from mqplug import ConfigError, Position, PositionLost, Watermarks
from mqplug_spark._options.points import EARLIEST_OFFSET, LATEST_OFFSET, OffsetsOption, Point
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.read_range import ReadRange


def plan_ranges(options: ReadOptions, marks: Mapping[str, Mapping[int, Watermarks]]) -> list[ReadRange]:
    """Return the ranges to read, ordered by topic and partition; none for a partition without messages to read."""
    ranges = []
    for topic in options.topics:
        starts = _points("startingOffsets", options.starting, topic, marks[topic])
        ends = _points("endingOffsets", options.ending, topic, marks[topic])
        for partition, mark in sorted(marks[topic].items()):
            wanted = _resolve("startingOffsets", starts[partition], mark)
            until = _resolve("endingOffsets", ends[partition], mark)
            _check_order(wanted, until)
            start = wanted if wanted >= mark.low else _what_is_left(wanted, mark, options)
            if start < until:
                ranges.append(ReadRange(topic, partition, str(start), str(until)))
    return ranges


def _points(option: str, offsets: OffsetsOption, topic: str, marks: Mapping[int, Watermarks]) -> Mapping[int, Point]:
    """Return a point for each partition. JSON has to name exactly the existing partitions."""
    if isinstance(offsets, str):
        return dict.fromkeys(marks, EARLIEST_OFFSET if offsets == "earliest" else LATEST_OFFSET)
    points = offsets[topic]
    missing, extra = set(marks) - set(points), set(points) - set(marks)
    if missing:
        raise ConfigError(
            f"{option} does not name partition {min(missing)} of {topic!r}, which has {len(marks)}",
            topic=topic, fix="Name every partition; -2 is the earliest, -1 the latest",
        )  # fmt: skip
    if extra:
        raise ConfigError(
            f"{option} names partition {min(extra)} of {topic!r}, which has {len(marks)}",
            topic=topic, fix="Leave it out",
        )  # fmt: skip
    return points


def _what_is_left(wanted: Position, mark: Watermarks, options: ReadOptions) -> Position:
    """Return the log's first position. Raise ``PositionLost`` unless ``failOnDataLoss`` is false."""
    if options.fail_on_data_loss:
        raise PositionLost(
            f"retention removed messages behind {wanted!r}: the log begins at {mark.low!r}",
            log=mark.low.log, low=mark.low, topic=mark.low.log.topic, operation="plan a Spark read",
            fix="Start later, or say failOnDataLoss=false to read the remaining messages",
        )  # fmt: skip
    return mark.low


def _resolve(option: str, point: Point, mark: Watermarks) -> Position:
    """Return the position that a point means. Raise ``ConfigError`` beyond the end of the log."""
    if isinstance(point, int) and point < 0:
        return mark.low if point == EARLIEST_OFFSET else mark.readable
    position = _offset(option, point, mark) if isinstance(point, int) else _same_log(option, point, mark)
    if position > mark.high:
        raise ConfigError(
            f"{option} is {position!r}, which lies beyond the end of the log, {mark.high!r}",
            topic=mark.high.log.topic, fix="Name a stored message; -1 is the latest",
        )  # fmt: skip
    return position


def _offset(option: str, offset: int, mark: Watermarks) -> Position:
    log = mark.high.log
    if len(mark.high.coordinates) != 1:
        raise ConfigError(
            f"{option} is the offset {offset}, but {log.backend} has none: its ids have several parts",
            backend=log.backend, topic=log.topic, fix="Write the text of a position or of a message id",
        )  # fmt: skip
    return Position(log, (offset,))


def _same_log(option: str, position: Position, mark: Watermarks) -> Position:
    if position.log is not mark.high.log:
        raise ConfigError(
            f"{option} has {position!r} for {mark.high.log!r}: it belongs to another log, "
            f"or to a topic that was deleted and created again",
            topic=mark.high.log.topic, fix="Take positions and ids from this topic as it is now",
        )  # fmt: skip
    return position


def _check_order(start: Position, until: Position) -> None:
    if until < start:
        raise ConfigError(
            f"the read would begin at {start!r}, behind its end at {until!r}",
            topic=start.log.topic, fix="Let endingOffsets lie behind startingOffsets",
        )  # fmt: skip
