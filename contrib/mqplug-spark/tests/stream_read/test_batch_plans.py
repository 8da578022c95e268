"""The plan of a stream's batches: the offsets that Spark stores, the backlog, losses, and the limits of a batch."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pytest
from places import at, mark, orders, reached

from mqplug import ConfigError, InvalidMessageId, PositionLost
from mqplug_spark._ranges.data_loss import LossReports
from mqplug_spark._ranges.read_range import ReadRange
from mqplug_spark._stream_read.backlog import Backlog, backlogs, end_offset, not_beyond
from mqplug_spark._stream_read.limits import BatchDelay, shares
from mqplug_spark._stream_read.stream_offsets import StreamOffset, plan_batch

STRICT, LENIENT = LossReports(fail=True), LossReports(fail=False)


def spans(ranges: list[ReadRange]) -> list[tuple[int, int, int]]:
    """The ranges as numbers."""
    return [(each.partition, *each.start.coordinates, *each.until.coordinates) for each in ranges]


def test_an_offset_is_the_text_of_positions_by_topic_and_partition() -> None:
    """Spark stores text that users can read and write: a position for each partition."""
    stored = reached(5, 7).to_store()
    assert stored == {"orders": {"0": str(at(0, 5)), "1": str(at(1, 7))}}
    assert StreamOffset.from_stored(json.loads(json.dumps(stored))) == reached(5, 7)


def test_a_partition_that_joins_has_two_positions() -> None:
    """The start of a new partition is stored with the end of its batch, so that a repeated batch begins there too."""
    joins = reached(5, 9, begun={1: 3})
    assert joins.to_store()["orders"]["1"] == f"{at(1, 3)} {at(1, 9)}"
    assert StreamOffset.from_stored(joins.to_store()) == joins
    assert spans(plan_batch(reached(2), joins, STRICT)) == [(0, 2, 5), (1, 3, 9)]
    assert spans(plan_batch(joins, reached(5, 11), STRICT)) == [(1, 9, 11)]


def test_equal_offsets_are_stored_as_equal_text() -> None:
    """Spark compares the JSON, so its order does not depend on the order in which partitions were found."""
    numbers = list(range(12))
    one = StreamOffset({orders(number): at(number, 1) for number in numbers})
    other = StreamOffset({orders(number): at(number, 1) for number in reversed(numbers)})
    assert json.dumps(one.to_store()) == json.dumps(other.to_store())
    assert list(one.to_store()["orders"]) == [str(number) for number in numbers]


@pytest.mark.parametrize(
    "stored",
    [
        {"orders": {"0": 42}},
        {"orders": "p1"},
        {"orders": {"x": str(at(0, 1))}},
        {"orders": {"0": "nonsense"}},
        {"orders": {"0": str(at(0, 1)) + "x"}},
        {"orders": {"0": f"{at(0, 1)} {at(0, 2)} {at(0, 3)}"}},
    ],
)
def test_a_foreign_offset_is_named(stored: dict[str, Any]) -> None:
    """An offset that this source did not write raises ConfigError, which shows it."""
    with pytest.raises(ConfigError, match=r"the checkpoint holds an offset that mqplug did not store: .*orders"):
        StreamOffset.from_stored(stored)


def test_ranges_lie_between_two_offsets() -> None:
    """A partition without new messages has no range."""
    assert spans(plan_batch(reached(0, 5, 7), reached(3, 5, 8), STRICT)) == [(0, 0, 3), (2, 7, 8)]
    assert plan_batch(reached(3), reached(3), STRICT) == []


def test_a_topic_that_was_made_again_is_never_read_on() -> None:
    """Positions of another incarnation are an error, even if losses are allowed."""
    end = StreamOffset({orders(0): at(0, 9, incarnation="new")})
    with pytest.raises(InvalidMessageId, match="'orders' was deleted and created again since the query read"):
        plan_batch(reached(3), end, LENIENT)


def test_a_partition_that_is_gone_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    """A partition that is gone is an error, or one line in the log."""
    with pytest.raises(PositionLost, match=r"orders\[1\] is gone.*Set failOnDataLoss=false"):
        plan_batch(reached(3, 4), reached(5), STRICT)
    losses = LossReports(fail=False)
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        assert spans(plan_batch(reached(3, 4), reached(5), losses)) == [(0, 3, 5)]
        plan_batch(reached(3, 4), reached(5), losses)
    assert [record.getMessage()[:43] for record in caplog.records] == ["failOnDataLoss=false: orders[1] is gone; th"]


def test_a_step_over_lost_messages_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    """A batch that began after a loss begins there again. If its offsets were not compared, it reports the loss."""
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        assert spans(plan_batch(reached(2, 1), reached(9, 1, begun={0: 4}), STRICT)) == [(0, 4, 9)]
        assert caplog.text == ""
        ranges = plan_batch(reached(2), reached(9, begun={0: 4}), LossReports(fail=False), compared=False)
    assert spans(ranges) == [(0, 4, 9)]
    assert "retention removed messages of orders[0]" in caplog.text
    with pytest.raises(PositionLost, match=r"retention removed messages of orders\[0\]"):
        plan_batch(reached(2), reached(9, begun={0: 4}), STRICT, compared=False)


def test_the_first_batch_begins_where_it_began() -> None:
    """When the first batch runs again, Spark asks anew where the query begins; the batch's own offset decides."""
    first = reached(5, 6, begun={0: 2, 1: 6})
    assert spans(plan_batch(reached(9, 9, 9), first, STRICT)) == [(0, 2, 5)]


def test_before_pyspark_4_2_a_batch_begins_at_its_start() -> None:
    """Before PySpark 4.2, the end holds the first position of each partition, for new ones."""
    end = reached(5, 6, 7, begun={0: 1, 1: 1, 2: 1})
    assert spans(plan_batch(reached(3, 6), end, STRICT, compared=False)) == [(0, 3, 5), (2, 1, 7)]
    assert plan_batch(reached(9, 9, 9), end, STRICT, compared=False) == []
    again = StreamOffset({orders(0): at(0, 9, incarnation="new")}, {orders(0): at(0, 0, incarnation="new")})
    with pytest.raises(InvalidMessageId, match="'orders' was deleted and created again"):
        plan_batch(reached(3), again, LENIENT, compared=False)


@pytest.mark.parametrize("start", [reached(9), reached()])
def test_a_checkpoint_that_was_changed_is_refused(start: StreamOffset) -> None:
    """A batch that ends before it begins, or has no beginning, is an error."""
    with pytest.raises(ConfigError, match=r"the checkpoint has an invalid batch of orders\[0\], from"):
        plan_batch(start, reached(3), LENIENT)


def strict() -> LossReports:
    """Reports that raise losses as errors."""
    return LossReports(fail=True)


def test_a_query_reads_on_from_where_it_is_and_new_partitions_from_their_start() -> None:
    """The backlog excludes messages that the query has read; a new partition begins at EARLIEST."""
    found = backlogs(reached(5), {orders(0): mark(0, 2, 9), orders(1): mark(1, 3, 4)}, strict())
    assert found == {orders(0): Backlog(at(0, 5), at(0, 9)), orders(1): Backlog(at(1, 3), at(1, 4))}


def test_the_batch_of_a_new_partition_stores_where_it_began() -> None:
    """The end offset of a batch names the first position of a new partition, once."""
    marks = {orders(0): mark(0, 2, 9), orders(1): mark(1, 3, 4)}
    found = backlogs(reached(9), marks, strict())
    behind = end_offset(reached(9), {key: each.until for key, each in found.items()}, found)
    assert behind == reached(9, 4, begun={1: 3})
    again = backlogs(behind, marks, strict())
    assert end_offset(behind, {key: each.until for key, each in again.items()}, again) is behind


def test_an_empty_new_partition_joins_at_once() -> None:
    """The position of a new partition is stored although it is empty, so that later retention is detected."""
    found = backlogs(reached(9), {orders(0): mark(0, 2, 9), orders(1): mark(1, 0, 0)}, strict())
    assert end_offset(reached(9), {key: each.until for key, each in found.items()}, found) == reached(
        9, 0, begun={1: 0}
    )


def test_a_target_is_not_passed() -> None:
    """With availableNow, neither later messages nor later partitions are read, and no batch goes back."""
    marks = {orders(0): mark(0, 0, 9), orders(1): mark(1, 0, 9), orders(2): mark(2, 0, 9)}
    found = backlogs(reached(2, 8), marks, strict())
    assert not_beyond(found, reached(5, 6).reached) == {
        orders(0): Backlog(at(0, 2), at(0, 5)),
        orders(1): Backlog(at(1, 8), at(1, 8)),
    }


def test_what_retention_took_is_an_error_with_topic_and_range() -> None:
    """The error for removed messages names the partition, the missing range, and the start of the log."""
    with pytest.raises(PositionLost, match=r"of orders\[0\] from .* 2\) to .* 4\) before they were read") as lost:
        backlogs(reached(2), {orders(0): mark(0, 4, 9)}, strict())
    assert lost.value.low == at(0, 4)
    assert lost.value.topic == "orders"


def test_a_log_that_begins_anew_behind_a_query_at_its_end_is_no_loss() -> None:
    """After an outage, Pulsar begins a new ledger and drops the previous one if it is empty, which is no loss."""
    found = backlogs(reached(2), {orders(0): mark(0, 4, 9)}, strict(), at_end={orders(0)})
    assert found == {orders(0): Backlog(at(0, 4), at(0, 9))}
    assert end_offset(reached(2), {orders(0): at(0, 9)}, found) == reached(9, begun={0: 4})


def test_losses_that_are_allowed_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A waiting query finds the same loss at each trigger, but logs it once."""
    losses = LossReports(fail=False)
    with caplog.at_level(logging.WARNING, "mqplug.spark"):
        for _ in range(3):
            found = backlogs(reached(2, 2), {orders(0): mark(0, 4, 9)}, losses)
    assert found == {orders(0): Backlog(at(0, 4), at(0, 9))}
    assert len(caplog.records) == 2


def test_a_range_that_is_lost_as_a_whole_is_stepped_over() -> None:
    """If nothing is left of a range, the offset moves past it, so that the loss is found only once."""
    losses = LossReports(fail=False)
    found = backlogs(reached(2), {orders(0): mark(0, 9, 9)}, losses)
    assert end_offset(reached(2), {orders(0): found[orders(0)].until}, found) == reached(9, begun={0: 9})


def test_a_log_that_ends_before_the_query_is_a_loss() -> None:
    """A log that ends before the query's position is reported as a loss, not waited for silently."""
    with pytest.raises(PositionLost, match=r"orders\[0\] ends at .* 3\), before .* 5\)"):
        backlogs(reached(5), {orders(0): mark(0, 0, 3)}, strict())
    assert backlogs(reached(5), {orders(0): mark(0, 0, 3)}, LossReports(fail=False)) == {}


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_made_again_is_an_error(fail: bool) -> None:
    """No query jumps to a new topic of the same name, even if losses are allowed."""
    with pytest.raises(InvalidMessageId, match="deleted and created again"):
        backlogs(reached(5), {orders(0): mark(0, 0, 9, incarnation="new")}, LossReports(fail=fail))


def test_a_partition_that_is_gone_keeps_its_place() -> None:
    """A partition that is gone stays in the offset, so that a recreated topic is detected later."""
    found = backlogs(reached(5, 6), {orders(0): mark(0, 0, 9)}, LossReports(fail=False))
    assert end_offset(reached(5, 6), {orders(0): at(0, 9)}, found) == reached(9, 6)
    with pytest.raises(PositionLost, match=r"orders\[1\] is gone"):
        backlogs(reached(5, 6), {orders(0): mark(0, 0, 9)}, strict())


def test_nothing_new_is_the_same_offset() -> None:
    """Without new messages, the offset stays the same object, and Spark plans no batch."""
    start = StreamOffset({orders(0): at(0, 9)})
    found = backlogs(start, {orders(0): mark(0, 0, 9)}, strict())
    assert end_offset(start, {orders(0): at(0, 9)}, found) is start


@pytest.mark.parametrize(
    ("lags", "most", "expected"),
    [
        ([100, 100], 50, [25, 25]),
        ([300, 100], 40, [30, 10]),
        ([10, 20], 30, [10, 20]),
        ([10, 20], 99, [10, 20]),
        ([1_000_000, 1], 10, [9, 1]),
        ([0, 50, 0], 20, [0, 20, 0]),
        ([7, 7, 7], 10, [4, 3, 3]),
        ([5, 5, 5, 5], 2, [1, 1, 1, 1]),
        ([1, 1, 1], 2, [1, 1, 1]),
        ([1, 1, 1], 3, [1, 1, 1]),
        ([], 5, []),
        ([0, 0], 5, [0, 0]),
    ],
)
def test_shares(lags: list[int], most: int, expected: list[int]) -> None:
    """Shares are proportional to the lags, add up to the limit, and give each lagging partition progress."""
    found = shares(dict(enumerate(lags)), most)
    assert [found.get(partition, 0) for partition in range(len(lags))] == expected


def test_shares_are_exact() -> None:
    """For any lags, the sum is the limit or the whole lag, and each share is within its lag and near its proportion."""
    chance = random.Random(7)
    for _ in range(2_000):
        lags = {each: chance.choice([0, 1, 2, 10, 1_000, 10**12]) for each in range(chance.randint(1, 9))}
        lagging = [each for each, lag in lags.items() if lag]
        most = chance.choice([len(lagging) or 1, 17, 20_000, 10**9])
        found = shares(lags, most)
        assert sum(found.values()) == max(min(most, sum(lags.values())), min(len(lagging), sum(lags.values())))
        assert sorted(found) == lagging
        assert all(1 <= found[each] <= lags[each] for each in lagging)


def test_the_first_batch_of_a_run_is_not_held_back() -> None:
    """The first batch takes the stored messages, as in spark-sql-kafka; later ones wait for enough messages."""
    delay = BatchDelay(100, 900)
    assert not delay.holds(1, now=5000)
    assert delay.holds(99, now=5001)
    assert not delay.holds(100, now=5002)


def test_the_first_batch_with_messages_is_not_held_back() -> None:
    """The delay does not begin while a run has found no message yet."""
    delay = BatchDelay(100, 900)
    assert delay.holds(0, now=5000)
    assert not delay.holds(1, now=5001)
    assert delay.holds(1, now=5002)


def test_a_batch_is_held_back_no_longer_than_its_delay() -> None:
    """After maxTriggerDelay, one message is enough; without any, no batch is planned and no new wait begins."""
    delay = BatchDelay(100, 900)
    assert not delay.holds(1, now=0)
    assert delay.holds(5, now=899)
    assert delay.holds(0, now=901)
    assert not delay.holds(5, now=902)
    assert delay.holds(5, now=903)
