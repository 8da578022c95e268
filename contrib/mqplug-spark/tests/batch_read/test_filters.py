"""The filters of a query, and what they exclude from a read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from clusters import Cluster
from planned_marks import MarksClient, client
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    Not,
    StringStartsWith,
)
from reads import plan, reader_of

from mqplug import Record

pytestmark = pytest.mark.python

PARTITION, TIMESTAMP, ID = ("partition",), ("timestamp",), ("id",)


def remaining(*given: Filter) -> list[Filter]:
    """Return the filters that Spark must apply itself."""
    return list(reader_of({"url": "kafka://localhost", "subscribe": "orders"}).pushFilters(list(given)))


@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        ([EqualTo(PARTITION, 1)], [1]),
        ([In(PARTITION, (0, 2, 9))], [0, 2]),
        ([GreaterThan(PARTITION, 0), LessThan(PARTITION, 2)], [1]),
        ([EqualNullSafe(PARTITION, 2), IsNotNull(PARTITION), IsNotNull(("topic",))], [2]),
        ([EqualTo(PARTITION, 7)], []),
    ],
)
def test_filters_of_partitions_are_used_whole(given: list[Filter], partitions: list[int]) -> None:
    """Partitions that cannot match are not read, and Spark need not apply the filters again."""
    assert remaining(*given) == []
    planned = plan(client((0, 7), (0, 7), (0, 7)), *given)
    assert [each.partition for each in planned] == partitions


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("value",), b"x"),
        EqualTo(PARTITION, None),
        In(PARTITION, (1, None)),
        Not(EqualTo(PARTITION, 1)),
        IsNull(PARTITION),
        IsNotNull(("key",)),
        EqualTo(("headers", "partition"), 1),
        LessThan(TIMESTAMP, datetime(2030, 1, 1, tzinfo=UTC)),
        StringStartsWith(ID, "m1"),
    ],
)
def test_all_other_filters_remain_for_spark(given: Filter) -> None:
    """A filter that cannot be used, or whose nulls would differ, is left to Spark and excludes nothing."""
    assert remaining(given)[0] is given
    assert len(plan(client((0, 7), (0, 7)), given)) == 2


def numbers(orders: Cluster, *given: Filter) -> list[tuple[int, int]]:
    """Return the partition and the number of each message that is read."""
    return [
        (each.partition, int(message.value or b""))
        for each in plan(orders.url, *given)
        for message in orders.client.read("orders", start=each.start, until=each.until, partitions=[each.partition])
    ]


def test_what_is_earlier_is_left_out(orders: Cluster) -> None:
    """A lower bound of the timestamp starts the read at the first message that is as late; all later ones are read."""
    with orders.client.producer("orders") as out:
        times = enumerate((1000, 3000, 2000))
        out.send_many([Record(str(number).encode(), timestamp=each, partition=0) for number, each in times])
        out.send(b"7", timestamp=500, partition=1)
    at = datetime(1970, 1, 1, 1, 0, 2, tzinfo=timezone(timedelta(hours=1)))
    for each in (GreaterThanOrEqual(TIMESTAMP, at), GreaterThan(TIMESTAMP, at), EqualTo(TIMESTAMP, at)):
        assert numbers(orders, each) == [(0, 1), (0, 2)]
        assert remaining(each) == [each]
    naive = GreaterThan(TIMESTAMP, at.replace(tzinfo=None))
    assert len(numbers(orders, naive)) == 4


class SearchesByAnotherTime(MarksClient):
    """A client whose log is searched by another time than the timestamp."""

    def resolve(self, *_: Any, **__: Any) -> Any:
        """Refuse a search by time."""
        raise AssertionError("another time was searched for")


def test_a_time_that_is_not_the_logs_leaves_nothing_out() -> None:
    """If the log is searched by another time than the timestamp, everything is read."""
    held = SearchesByAnotherTime({"orders": [(0, 7), (3, 9)]}, backend="pulsar")
    assert len(plan(held, GreaterThan(TIMESTAMP, datetime(2030, 1, 1, tzinfo=UTC)))) == 2


def test_ids_are_sought(orders: Cluster) -> None:
    """A filter of ids reads from the first to the last id of each partition; other texts match nothing."""
    with orders.client.producer("orders") as out:
        first = [out.send(str(n).encode(), partition=0) for n in range(5)]
        second = out.send(b"9", partition=1)
    assert numbers(orders, EqualTo(ID, str(first[2]))) == [(0, 2)]
    assert numbers(orders, In(ID, (str(first[1]), str(first[3]), "nonsense", None))) == [(0, 1), (0, 2), (0, 3)]
    assert numbers(orders, In(ID, (str(first[1]), str(second)))) == [(0, 1), (1, 9)]
    assert numbers(orders, EqualTo(ID, str(first[1])), EqualTo(ID, str(second))) == []
    assert numbers(orders, EqualTo(ID, "nonsense")) == []
