"""Ranges that are split into parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from planned_marks import client
from reads import plan

from mqplug import Unsupported


def edges(parts: list[Any]) -> list[tuple[int, int, int]]:
    """Return the parts as numbers."""
    return [(each.partition, each.start.coordinates[0], each.until.coordinates[0]) for each in parts]


def test_without_options_ranges_stay_as_they_are() -> None:
    """Each partition is one task, also on a backend that cannot count positions."""
    assert edges(plan(client((0, 7), (3, 9), able=False))) == [(0, 0, 7), (1, 3, 9)]


def test_no_part_has_more_than_the_most() -> None:
    """The option maxRecordsPerPartition bounds each part; the parts of a range have equal sizes."""
    parts = plan(client((0, 7), (3, 9)), maxRecordsPerPartition="3")
    assert edges(parts) == [(0, 0, 2), (0, 2, 4), (0, 4, 7), (1, 3, 6), (1, 6, 9)]


def test_there_are_no_fewer_parts_than_the_least() -> None:
    """The option minPartitions splits larger ranges into more parts, and none if there are enough ranges."""
    parts = plan(client((0, 80), (0, 20)), minPartitions="5")
    assert edges(parts) == [(0, 0, 20), (0, 20, 40), (0, 40, 60), (0, 60, 80), (1, 0, 20)]
    assert len(plan(client((0, 80), (0, 20)), minPartitions="2")) == 2


def test_a_backend_without_arithmetic_refuses() -> None:
    """If positions cannot be counted, both options are refused by name."""
    for name in ("minPartitions", "maxRecordsPerPartition"):
        with pytest.raises(Unsupported, match=f"{name} needs positions.*each partition is a task"):
            plan(client((0, 7), able=False), **{name: "3"})


@settings(max_examples=100, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 300)), min_size=1, max_size=6),
    least=st.none() | st.integers(1, 40),
    most=st.none() | st.integers(1, 40),
)
def test_parts_are_the_same_messages(spans: list[tuple[int, int]], least: int | None, most: int | None) -> None:
    """For any options, the parts of a range adjoin without gaps and respect both bounds."""
    whole = [(start, start + size) for start, size in spans]
    wanted = {"minPartitions": least, "maxRecordsPerPartition": most}
    parts = plan(client(*whole), **{name: str(each) for name, each in wanted.items() if each is not None})
    for number, (start, until) in enumerate(whole):
        mine = [part for part in edges(parts) if part[0] == number]
        assert (mine[0][1], mine[-1][2]) == (start, until)
        assert [part[2] for part in mine[:-1]] == [part[1] for part in mine[1:]]
    sizes = [until - start for _, start, until in edges(parts)]
    assert min(sizes, default=1) > 0
    assert most is None or max(sizes, default=0) <= most
    assert least is None or len(parts) >= min(least, sum(size for _, size in spans))
