"""The offsets of a stream that Spark stores, and the plan of a batch from them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from places import at, orders, reached

from mqplug import ConfigError, InvalidMessageId, PositionLost
from mqplug_spark._ranges.data_loss import LossReports
from mqplug_spark._ranges.read_range import ReadRange
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
