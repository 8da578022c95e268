"""The rows and the facts of one topic, and of one group on a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import mqplug
from mqplug_cli._output.positions import position_text
from mqplug_cli._top import figures
from mqplug_cli._top.layout import Column, Row
from mqplug_cli._top.model import Model
from mqplug_cli._top.overview_rows import SPARKLINE_WIDTH
from mqplug_cli._top.sample import GroupKey
from mqplug_cli._top.sparkline import sparkline

PARTITION_COLUMNS: Final = (
    Column("PARTITION", wide=True),
    Column("LOW", right=True),
    Column("HIGH", right=True),
    Column("MESSAGES", right=True),
    Column("IN/S", right=True),
)
PLACE_COLUMNS: Final = (
    Column("PARTITION", wide=True),
    Column("POSITION", right=True),
    Column("HIGH", right=True),
    Column("LAG", right=True),
)


def partition_rows(model: Model, topic: str) -> list[Row]:
    """Return a row for each partition of a topic."""
    there = model.sample.topics.get(topic)
    if there is None:
        return []
    rates = there.rates or {}
    return [
        Row(
            partition,
            (
                str(partition), place(marks.low), place(marks.high), figures.count(marks.count, marks.exact),
                figures.rate(rates.get(partition)),
            ),
        )
        for partition, marks in sorted(there.marks.items())
    ]  # fmt: skip


def place_rows(model: Model, key: GroupKey) -> list[Row]:
    """Return a row for each partition of a topic, with a group's position in it."""
    group = model.sample.groups.get(key)
    there = model.sample.topics.get(key[1])
    if group is None or there is None:
        return []
    positions = group.positions or {}
    return [
        Row(
            partition,
            (
                str(partition), place(positions.get(partition)), place(marks.high),
                figures.count(group.lag.get(partition, 0), marks.exact),
            ),
            marked=False,
        )
        for partition, marks in sorted(there.marks.items())
    ]  # fmt: skip


def topic_facts(model: Model, topic: str, bars: str) -> str:
    """Return what a topic does and which groups read it, line by line."""
    there = model.sample.topics.get(topic)
    if there is None:
        return "there is no such topic"
    lines = [_rates("in", there.rate, model.stored.of(topic), bars)]
    for (group, name), sample in sorted(model.sample.groups.items()):
        if name == topic:
            behind = figures.count(sample.behind, there.exact)
            lines.append(f"{group} is {behind} behind, {figures.rate(sample.rate)}/s")
    return "\n".join(lines)


def group_facts(model: Model, key: GroupKey, bars: str) -> str:
    """Return what a group does on a topic."""
    group = model.sample.groups.get(key)
    if group is None:
        return "the group has no position here"
    return _rates("out", group.rate, model.passed.of(key), bars)


def members_line(described: mqplug.GroupDescription) -> str:
    """Return the names of a group's members."""
    if described.members is None:
        return "members: the backend does not report them"
    return f"members: {', '.join(map(str, described.members)) or 'none'}"


def place(position: mqplug.Position | None) -> str:
    """Return the coordinates of a position."""
    return position_text(position) or figures.UNKNOWN


def _rates(word: str, rate: float | None, before: Sequence[float | None], bars: str) -> str:
    return f"{word} {figures.rate(rate)}/s  {sparkline(before, 3 * SPARKLINE_WIDTH, bars).lstrip()}"
