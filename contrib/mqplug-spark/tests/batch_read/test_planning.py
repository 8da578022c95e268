"""From options and watermarks to ranges."""

from __future__ import annotations

import json

import pytest
from spark_options import options

import mqplug
from mqplug import ConfigError, Log, Position, PositionLost, Watermarks
from mqplug_spark._batch_read.planning import plan_ranges
from mqplug_spark._options.read_options import parse_options
from mqplug_spark._ranges.read_range import ReadRange


def at(partition: int, *coordinates: int, topic: str = "orders", incarnation: str = "") -> Position:
    """A position in a partition of a topic."""
    return Position(Log("kafka", "here", topic, partition, incarnation), coordinates)


def marks(*lows_and_highs: tuple[int, int], topic: str = "orders") -> dict[str, dict[int, Watermarks]]:
    """The watermarks of a topic, partition by partition."""
    return {
        topic: {
            partition: Watermarks(at(partition, low, topic=topic), at(partition, high, topic=topic), high - low)
            for partition, (low, high) in enumerate(lows_and_highs)
        }
    }


def offsets(**partitions: object) -> str:
    """The JSON of points for ``orders``: ``offsets(p0=5)``."""
    return json.dumps({"orders": {name[1:]: point for name, point in partitions.items()}})


def spans(ranges: list[ReadRange]) -> list[tuple[str, int, int, int]]:
    """The ranges as numbers."""
    return [
        (each.topic, each.partition, *Position.parse(each.start).coordinates, *Position.parse(each.until).coordinates)
        for each in ranges
    ]


def test_everything_is_one_range_for_each_partition() -> None:
    """By default each partition is read from low to high."""
    assert spans(plan_ranges(options(), marks((0, 7), (3, 9)))) == [("orders", 0, 0, 7), ("orders", 1, 3, 9)]


def test_an_empty_partition_has_no_range() -> None:
    """Nothing is planned where nothing is stored."""
    assert spans(plan_ranges(options(), marks((0, 0), (3, 9), (5, 5)))) == [("orders", 1, 3, 9)]


def test_a_read_from_the_latest_is_empty() -> None:
    """What a batch read finds behind the latest is nothing."""
    assert plan_ranges(options(startingOffsets="latest"), marks((0, 7))) == []


def test_several_topics_keep_their_order() -> None:
    """Ranges come in the order in which topics were named."""
    made = parse_options({"url": "kafka://localhost", "subscribe": "orders,audit"})
    assert spans(plan_ranges(made, marks((0, 2), topic="audit") | marks((0, 1), topic="orders"))) == [
        ("orders", 0, 0, 1),
        ("audit", 0, 0, 2),
    ]


def test_points_begin_and_end_ranges() -> None:
    """Offsets, words and texts of positions stand for what they say; the end is not read."""
    made = options(
        startingOffsets=offsets(p0=2, p1=-2, p2=str(at(2, 5))), endingOffsets=offsets(p0=6, p1=str(at(1, 8)), p2=-1)
    )
    assert spans(plan_ranges(made, marks((0, 7), (3, 9), (4, 10)))) == [
        ("orders", 0, 2, 6),
        ("orders", 1, 3, 8),
        ("orders", 2, 5, 10),
    ]


def test_the_end_of_the_log_is_a_legal_point() -> None:
    """An offset just behind the last message is no error: nothing is read from there."""
    assert plan_ranges(options(startingOffsets=offsets(p0=7)), marks((0, 7))) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": offsets(p0=0)}, "startingOffsets does not name partition 1 of 'orders', which has 2"),
        ({"endingOffsets": offsets(p0=1, p1=1, p2=1)}, "endingOffsets names partition 2 of 'orders', which has 2"),
        ({"startingOffsets": offsets(p0=8, p1=0)}, "startingOffsets is .* 8\\), which lies beyond the end"),
        ({"endingOffsets": offsets(p0=-1, p1=99)}, "endingOffsets is .* 99\\), which lies beyond the end"),
        (
            {"startingOffsets": offsets(p0=5, p1=0), "endingOffsets": offsets(p0=4, p1=-1)},
            "begin at .* 5\\), behind its end at .* 4\\)",
        ),
        ({"startingOffsets": offsets(p0=str(at(1, 2)), p1=0)}, "it belongs to another log"),
        ({"startingOffsets": offsets(p0=str(at(0, 2, topic="audit")), p1=0)}, "it belongs to another log"),
        ({"startingOffsets": offsets(p0=str(at(0, 2, incarnation="old")), p1=0)}, "deleted and created again"),
    ],
)
def test_points_that_do_not_fit_are_named(given: dict[str, str], says: str) -> None:
    """Points of other partitions, other topics or beyond the end are a ConfigError, and nothing is planned."""
    with pytest.raises(ConfigError, match=says):
        plan_ranges(options(**given), marks((0, 7), (0, 9)))


def test_an_offset_means_nothing_where_ids_have_several_parts() -> None:
    """A number is refused where one number does not name a message."""
    log = Log("pulsar", "here", "orders", 0)
    high = Watermarks(Position(log, (5, 0, 0)), Position(log, (9, 4, 0)), 30)
    with pytest.raises(ConfigError, match="pulsar has none: its ids have several parts"):
        plan_ranges(options(startingOffsets=offsets(p0=3)), {"orders": {0: high}})


def test_a_lost_start_is_an_error() -> None:
    """A start that retention removed is PositionLost, with where the log begins now."""
    with pytest.raises(PositionLost, match="failOnDataLoss=false") as lost:
        plan_ranges(options(startingOffsets=offsets(p0=2)), marks((4, 7)))
    assert lost.value.low == at(0, 4)


def test_a_lost_start_is_stepped_over_where_allowed() -> None:
    """With failOnDataLoss=false a read begins with the first message that is left."""
    made = options(startingOffsets=offsets(p0=2), failOnDataLoss="false")
    assert spans(plan_ranges(made, marks((4, 7)))) == [("orders", 0, 4, 7)]


def test_a_range_that_is_lost_as_a_whole_is_empty_where_allowed() -> None:
    """With failOnDataLoss=false a range of which nothing is left is not read; it is no error."""
    made = options(startingOffsets=offsets(p0=2), endingOffsets=offsets(p0=3), failOnDataLoss="false")
    assert plan_ranges(made, marks((4, 7))) == []


def test_the_watermarks_of_a_backend_are_planned(mq: mqplug.Client) -> None:
    """What a client's watermarks say is what is planned."""
    with mq.producer("orders") as out:
        out.send(b"one", partition=1)
    assert spans(plan_ranges(options(), {"orders": mq.watermarks("orders")})) == [("orders", 1, 0, 1)]
