"""The filters of a query, and what they exclude from a read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from planned_marks import client
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
from spark_options import options

import mqplug
from mqplug import Record
from mqplug_spark._batch_read import plan_ranges, use_filters

pytestmark = pytest.mark.python

PARTITION, TIMESTAMP, ID = ("partition",), ("timestamp",), ("id",)


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
    asked, remaining = use_filters(given)
    assert remaining == []
    planned = plan_ranges(client((0, 7), (0, 7), (0, 7)), options(), asked)
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
    asked, remaining = use_filters([given])
    assert remaining[0] is given
    assert len(plan_ranges(client((0, 7), (0, 7)), options(), asked)) == 2


def numbers(mq: mqplug.Client, given: list[Filter]) -> list[tuple[int, int]]:
    """The partition and value of each message that is read."""
    asked, _ = use_filters(given)
    return [
        (each.partition, int(message.value or b""))
        for each in plan_ranges(mq, options(), asked)
        for message in mq.read(
            "orders",
            start=each.start,
            until=each.until,
            partitions=[each.partition],
        )
    ]


def test_what_is_earlier_is_left_out(mq: mqplug.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower bound of the timestamp starts the read at the first message that is as late; all later ones are read."""
    monkeypatch.setattr("mqplug_spark._batch_read.ONE_TIME", {"memory"})
    with mq.producer("orders") as out:
        times = enumerate((1000, 3000, 2000))
        out.send_many([Record(str(number).encode(), timestamp=each, partition=0) for number, each in times])
        out.send(b"7", timestamp=500, partition=1)
    at = datetime(1970, 1, 1, 1, 0, 2, tzinfo=timezone(timedelta(hours=1)))
    for each in (GreaterThanOrEqual(TIMESTAMP, at), GreaterThan(TIMESTAMP, at), EqualTo(TIMESTAMP, at)):
        assert numbers(mq, [each]) == [(0, 1), (0, 2)]
        assert use_filters([each])[1] == [each]
    naive = [GreaterThan(TIMESTAMP, at.replace(tzinfo=None))]
    assert len(numbers(mq, naive)) == 4


def test_a_time_that_is_not_the_logs_leaves_nothing_out(mq: mqplug.Client) -> None:
    """If the log is searched by another time than the timestamp, everything is read."""
    with mq.producer("orders") as out:
        out.send(b"1", timestamp=500, partition=0)
    assert numbers(mq, [GreaterThan(TIMESTAMP, datetime(2030, 1, 1, tzinfo=UTC))]) == [(0, 1)]


def test_ids_are_sought(mq: mqplug.Client) -> None:
    """A filter of ids reads from the first to the last id of each partition; other texts match nothing."""
    with mq.producer("orders") as out:
        first = [out.send(str(n).encode(), partition=0) for n in range(5)]
        second = out.send(b"9", partition=1)
    assert numbers(mq, [EqualTo(ID, str(first[2]))]) == [(0, 2)]
    assert numbers(mq, [In(ID, (str(first[1]), str(first[3]), "nonsense", None))]) == [(0, 1), (0, 2), (0, 3)]
    assert numbers(mq, [In(ID, (str(first[1]), str(second)))]) == [(0, 1), (1, 9)]
    assert numbers(mq, [EqualTo(ID, str(first[1])), EqualTo(ID, str(second))]) == []
    assert numbers(mq, [EqualTo(ID, "nonsense")]) == []
