"""The backlog of a query, and its losses."""

from __future__ import annotations

import logging

import pytest
from places import at, mark, orders, reached

from mqplug import InvalidMessageId, PositionLost
from mqplug_spark._ranges.data_loss import LossReports
from mqplug_spark._stream_read.backlog import Backlog, backlogs, end_offset, not_beyond
from mqplug_spark._stream_read.stream_offsets import StreamOffset


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
