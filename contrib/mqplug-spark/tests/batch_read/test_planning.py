"""Planning of ranges from options and watermarks."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from clusters import Cluster
from planned_marks import at, client
from pyspark.sql.datasource import EqualTo
from reads import plan

from mqplug import ConfigError, Log, Position, PositionLost, Record, TopicNotFound, Unsupported, Watermarks

pytestmark = pytest.mark.python


def offsets(**partitions: object) -> str:
    """The JSON of points for ``orders``: ``offsets(p0=5)``."""
    return json.dumps({"orders": {name[1:]: point for name, point in partitions.items()}})


def spans(ranges: list[Any]) -> list[tuple[str, int, int, int]]:
    """The ranges as numbers."""
    return [(each.topic, each.partition, *each.start.coordinates, *each.until.coordinates) for each in ranges]


def test_everything_is_one_range_for_each_partition() -> None:
    """By default each partition is read from low to high."""
    assert spans(plan(client((0, 7), (3, 9)))) == [("orders", 0, 0, 7), ("orders", 1, 3, 9)]


def test_an_empty_partition_has_no_range() -> None:
    """Nothing is planned for an empty partition."""
    assert spans(plan(client((0, 0), (3, 9), (5, 5)))) == [("orders", 1, 3, 9)]


def test_a_read_from_the_latest_is_empty() -> None:
    """A batch read from the latest finds no messages."""
    assert plan(client((0, 7)), startingOffsets="latest") == []


def test_several_topics_keep_their_order() -> None:
    """Ranges have the order in which topics were named."""
    made = {"subscribe": "orders,audit"}
    assert spans(plan(client(audit=[(0, 2)], orders=[(0, 1)]), **made)) == [
        ("orders", 0, 0, 1),
        ("audit", 0, 0, 2),
    ]


def test_a_pattern_selects_topics_by_their_whole_names() -> None:
    """A pattern selects the topics whose whole name matches; it is an error if none does."""
    held = client(**{"orders-1": [(0, 2)], "old-orders-1": [(0, 1)], "orders-2": [(0, 3)], "orders": [(0, 1)]})
    made = {"subscribePattern": "orders-."}
    assert spans(plan(held, **made)) == [("orders-1", 0, 0, 2), ("orders-2", 0, 0, 3)]
    none = {"subscribePattern": "order"}
    with pytest.raises(TopicNotFound, match="no topic matches subscribePattern 'order'"):
        plan(held, **none)


def test_points_of_a_pattern_name_exactly_its_topics() -> None:
    """JSON next to a pattern must name the topics that match when the read is planned."""
    given = {"subscribePattern": "a.", "startingOffsets": '{"a1": {"0": 1}}'}
    assert spans(plan(client(a1=[(0, 2)]), **given)) == [("a1", 0, 1, 2)]
    with pytest.raises(ConfigError, match="startingOffsets does not name the topic 'a2'"):
        plan(client(a1=[(0, 2)], a2=[(0, 2)]), **given)


def test_assigned_partitions_alone_are_read() -> None:
    """With assign, only the named partitions are read, and JSON must name exactly those."""
    given = {"assign": '{"orders": [2, 0]}'}
    held = client((0, 7), (3, 9), (4, 10))
    assert spans(plan(held, **given)) == [("orders", 0, 0, 7), ("orders", 2, 4, 10)]
    started = given | {"startingOffsets": offsets(p0=1, p2=5)}
    assert spans(plan(held, **started)) == [("orders", 0, 1, 7), ("orders", 2, 5, 10)]
    with pytest.raises(ConfigError, match="startingOffsets names partition 1 of 'orders', which is not one of the 2"):
        plan(held, **(given | {"startingOffsets": offsets(p0=1, p1=3, p2=5)}))
    with pytest.raises(ConfigError, match="assign names partition 3 of 'orders', which has 3"):
        plan(held, assign='{"orders": [3]}')


def test_points_begin_and_end_ranges() -> None:
    """Offsets, words and texts of positions bound a read; the end is exclusive."""
    made = {
        "startingOffsets": offsets(p0=2, p1=-2, p2=str(at(2, 5))),
        "endingOffsets": offsets(p0=6, p1=str(at(1, 8)), p2=-1),
    }
    assert spans(plan(client((0, 7), (3, 9), (4, 10)), **made)) == [
        ("orders", 0, 2, 6),
        ("orders", 1, 3, 8),
        ("orders", 2, 5, 10),
    ]


def test_the_end_of_the_log_is_a_legal_point() -> None:
    """An offset right after the last message is legal: nothing is read from there."""
    assert plan(client((0, 7)), startingOffsets=offsets(p0=7)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": offsets(p0=0)}, "startingOffsets does not name partition 1 of 'orders'.*is read: 0, 1"),
        ({"endingOffsets": offsets(p0=1, p1=1, p2=1)}, "endingOffsets names partition 2 of 'orders'.*the 2 partitions"),
        ({"startingOffsets": offsets(p0=8, p1=0)}, "startingOffsets is .* 8\\), which is beyond the end"),
        ({"endingOffsets": offsets(p0=-1, p1=99)}, "endingOffsets is .* 99\\), which is beyond the end"),
        (
            {"startingOffsets": offsets(p0=5, p1=0), "endingOffsets": offsets(p0=4, p1=-1)},
            "begins at .* 5\\), after its end at .* 4\\)",
        ),
        ({"startingOffsets": offsets(p0=str(at(1, 2)), p1=0)}, "it belongs to another log"),
        ({"startingOffsets": offsets(p0=str(at(0, 2, topic="audit")), p1=0)}, "it belongs to another log"),
        ({"startingOffsets": offsets(p0=str(at(0, 2, incarnation="old")), p1=0)}, "deleted and created again"),
    ],
)
def test_points_that_do_not_fit_are_named(given: dict[str, str], says: str) -> None:
    """Points of other partitions, of other topics or beyond the end raise ConfigError, and nothing is planned."""
    with pytest.raises(ConfigError, match=says):
        plan(client((0, 7), (0, 9)), **given)


def test_an_end_beyond_the_log_is_the_latest_where_losses_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    """As in spark-sql-kafka, failOnDataLoss=false reads the stored messages; a start beyond the end stays an error."""
    lenient = {"endingOffsets": offsets(p0=99), "failOnDataLoss": "false"}
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        assert spans(plan(client((0, 7)), **lenient)) == [("orders", 0, 0, 7)]
    assert "endingOffsets" in caplog.text
    with pytest.raises(ConfigError, match=r"startingOffsets is .* 99\), which is beyond the end"):
        plan(client((0, 7)), startingOffsets=offsets(p0=99), failOnDataLoss="false")


def test_an_offset_means_nothing_where_ids_have_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset is refused if one number does not identify a message."""
    log = Log("pulsar", "here", "orders", 0)
    high = Watermarks(Position(log, (5, 0, 0)), Position(log, (9, 4, 0)), 30)
    held = client((0, 1))
    monkeypatch.setattr(type(held), "watermarks", lambda self, topics: {"orders": {0: high}})
    with pytest.raises(ConfigError, match="pulsar has no offsets: its ids have several parts"):
        plan(held, startingOffsets=offsets(p0=3))


def test_a_lost_start_is_an_error() -> None:
    """A start that retention removed raises PositionLost, which holds the start of the log."""
    with pytest.raises(PositionLost, match=r"orders\[0\].*failOnDataLoss=false") as lost:
        plan(client((4, 7)), startingOffsets=offsets(p0=2))
    assert lost.value.low == at(0, 4)


def test_a_lost_start_is_stepped_over_where_allowed(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a read begins at the first remaining message, and the log counts the lost ones."""
    made = {"startingOffsets": offsets(p0=2), "failOnDataLoss": "false"}
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        assert spans(plan(client((4, 7)), **made)) == [("orders", 0, 4, 7)]
    assert "2 messages of orders[0] are lost" in caplog.text


def test_only_what_was_asked_for_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Messages after the end of a read, and those of partitions that filters exclude, are not lost."""
    bounds = {"startingOffsets": offsets(p0=2, p1=0), "endingOffsets": offsets(p0=3, p1=9)}
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        planned = plan(client((4, 7), (0, 9)), **bounds, failOnDataLoss="false")
    assert spans(planned) == [("orders", 1, 0, 9)]
    assert "1 messages of orders[0] are lost" in caplog.text
    assert spans(plan(client((4, 7), (0, 9)), EqualTo(("partition",), 1), **bounds)) == [("orders", 1, 0, 9)]


def test_a_range_that_is_lost_as_a_whole_is_empty_where_allowed() -> None:
    """With failOnDataLoss=false, a range that is gone completely is skipped without an error."""
    made = {"startingOffsets": offsets(p0=2), "endingOffsets": offsets(p0=3), "failOnDataLoss": "false"}
    assert plan(client((4, 7)), **made) == []


def test_the_earliest_may_lie_behind_the_end() -> None:
    """A read from the earliest to a message that is gone has no rows."""
    assert plan(client((4, 7)), endingOffsets=offsets(p0=3)) == []


def test_the_watermarks_of_a_backend_are_planned(orders: Cluster) -> None:
    """Ranges are planned from the watermarks of a client."""
    with orders.client.producer("orders") as out:
        out.send(b"one", partition=1)
    assert spans(plan(orders.url)) == [("orders", 1, 0, 1)]


def send_at(orders: Cluster, *times: int, partition: int = 0) -> None:
    """Send a message with each of the times to a partition."""
    with orders.client.producer("orders") as out:
        out.send_many([Record(b"x", timestamp=each, partition=partition) for each in times])


def test_times_begin_and_end_ranges(orders: Cluster) -> None:
    """A time means the first message that is as late; an end after all messages is the latest."""
    send_at(orders, 1000, 2000, 3000)
    send_at(orders, 2500, 3500, partition=1)
    for given in (
        {"startingTimestamp": "2000", "endingTimestamp": "3001"},
        {
            "startingOffsetsByTimestamp": offsets(p0=2000, p1=2000),
            "endingOffsetsByTimestamp": offsets(p0=3001, p1=3001),
        },
    ):
        assert spans(plan(orders.url, **given)) == [("orders", 0, 1, 3), ("orders", 1, 0, 1)]
    uneven = {"startingOffsetsByTimestamp": offsets(p0=3000, p1=0)}
    assert spans(plan(orders.url, **uneven)) == [("orders", 0, 2, 3), ("orders", 1, 0, 2)]


def test_a_start_behind_all_messages_is_an_error_or_the_latest(orders: Cluster) -> None:
    """As in spark-sql-kafka, the strategy is error unless it is set to latest; a relative time means the latest."""
    send_at(orders, 1000, 2000)
    send_at(orders, 1000, partition=1)
    with pytest.raises(ConfigError, match=r"startingTimestamp: no message of orders\[1\] is as late.*Strategy=latest"):
        plan(orders.url, startingTimestamp="1500")
    lenient = {"startingTimestamp": "1500", "startingOffsetsByTimestampStrategy": "latest"}
    assert spans(plan(orders.url, **lenient)) == [("orders", 0, 1, 2)]
    assert plan(orders.url, startingTimestamp="-10 minutes") == []
    with pytest.raises(ConfigError, match="no message"):
        plan(orders.url, startingTimestamp="-1h", startingOffsetsByTimestampStrategy="error")


def test_relative_times_are_counted_from_the_planning(orders: Cluster) -> None:
    """A relative time can start and end a read, also inside JSON."""
    send_at(orders, 1000)
    with orders.client.producer("orders") as out:
        out.send(b"now", partition=0)
    assert spans(plan(orders.url, startingOffsets="-10 minutes")) == [("orders", 0, 1, 2)]
    mixed = {"startingOffsets": offsets(p0="-1 day", p1=-2), "endingOffsets": offsets(p0=-1, p1="-5s")}
    assert spans(plan(orders.url, **mixed)) == [("orders", 0, 1, 2)]
    assert spans(plan(orders.url, endingTimestamp="-10 minutes")) == [("orders", 0, 0, 1)]


def test_ranges_are_split_where_it_is_asked_for() -> None:
    """The same messages are divided among more tasks than partitions."""
    planned = spans(plan(client((0, 7), (3, 9)), minPartitions="3"))
    assert planned == [("orders", 0, 0, 3), ("orders", 0, 3, 7), ("orders", 1, 3, 9)]
    with pytest.raises(Unsupported, match="minPartitions needs positions that can be counted"):
        plan(client((0, 7), able=False), minPartitions="3")
