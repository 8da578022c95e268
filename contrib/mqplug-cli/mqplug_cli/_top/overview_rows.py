"""The rows of the overview: topics, and groups with their lag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from mqplug_cli._top import figures
from mqplug_cli._top.layout import Column, Row
from mqplug_cli._top.model import Model
from mqplug_cli._top.sparkline import BARS, sparkline

SPARKLINE_WIDTH: Final = 20
TOPIC_COLUMNS: Final = (
    Column("TOPIC", wide=True),
    Column("PARTITIONS", right=True),
    Column("MESSAGES", right=True),
    Column("IN/S", right=True),
    Column("OUT/S", right=True),
    Column("LAG", right=True),
    Column("IN, BEFORE"),
)
GROUP_COLUMNS: Final = (
    Column("GROUP", wide=True),
    Column("TOPIC"),
    Column("MEMBERS", right=True),
    Column("LAG", right=True),
    Column("OUT/S", right=True),
    Column("OUT, BEFORE"),
)


@attrs.frozen
class View:
    """How the overview is shown: names that contain this text, in this order, with these bars."""

    text: str = ""
    order: str = "name"
    bars: str = BARS


@attrs.frozen
class _Topic:
    """The numbers of a topic's row."""

    name: str
    messages: int
    stored: float
    passed: float
    lag: int


@attrs.define
class _OfGroups:
    """What all groups do on a topic."""

    lag: int = 0
    passed: float | None = None


_TOPIC_ORDERS: Final[dict[str, Callable[[_Topic], float]]] = {
    "in": lambda topic: -topic.stored,
    "out": lambda topic: -topic.passed,
    "lag": lambda topic: -topic.lag,
    "messages": lambda topic: -topic.messages,
}
ORDERS: Final = ("name", *_TOPIC_ORDERS)


def topic_rows(model: Model, view: View) -> list[Row]:
    """Return a row for each topic whose name contains the text."""
    topics = model.sample.topics
    groups = _of_groups(model)
    shown = [name for name in sorted(topics) if view.text.lower() in name.lower()]
    if view.order != "name":
        numbers = [
            _Topic(name, topics[name].messages, topics[name].rate or 0.0, groups[name].passed or 0.0, groups[name].lag)
            for name in shown
        ]
        shown = [each.name for each in sorted(numbers, key=_TOPIC_ORDERS[view.order])]
    return [_topic_row(model, name, groups[name], view.bars) for name in shown]


def group_rows(model: Model, view: View) -> list[Row]:
    """Return a row for each group and topic of its own, where the name of one contains the text."""
    text = view.text.lower()
    groups = model.sample.groups
    shown = [key for key in sorted(groups) if text in key[0].lower() or text in key[1].lower()]
    if view.order == "lag":
        shown.sort(key=lambda key: -groups[key].behind)
    elif view.order == "out":
        shown.sort(key=lambda key: -(groups[key].rate or 0.0))
    rows = []
    for key in shown:
        group = groups[key]
        cells = (
            key[0], key[1], figures.members(model.sample.members.get(key[0])),
            figures.count(group.behind, _exact(model, key[1])), figures.rate(group.rate),
            sparkline(model.passed.of(key), SPARKLINE_WIDTH, view.bars),
        )  # fmt: skip
        rows.append(Row(key, cells, marked=stuck(group.behind, group.rate)))
    return rows


def stuck(lag: int, rate: float | None) -> bool:
    """Return whether a group has messages to read, and reads none."""
    return lag > 0 and rate == 0


def summary(model: Model) -> str:
    """Return how much there is, in one line."""
    sample = model.sample
    partitions = sum(len(topic.marks) for topic in sample.topics.values())
    parts: Sequence[str] = (
        _plural(len(sample.topics), "topic"), _plural(partitions, "partition"), _plural(len(sample.members), "group"),
        f"in {figures.rate(model.rate_in)}/s", f"out {figures.rate(model.rate_out)}/s",
    )  # fmt: skip
    return "  ".join(parts)


def _topic_row(model: Model, name: str, groups: _OfGroups, bars: str) -> Row:
    topic = model.sample.topics[name]
    cells = (
        name, str(len(topic.marks)), figures.count(topic.messages, topic.exact), figures.rate(topic.rate),
        figures.rate(groups.passed), figures.count(groups.lag, topic.exact),
        sparkline(model.stored.of(name), SPARKLINE_WIDTH, bars),
    )  # fmt: skip
    return Row(name, cells)


def _of_groups(model: Model) -> dict[str, _OfGroups]:
    found: dict[str, _OfGroups] = defaultdict(_OfGroups)
    for (_, topic), group in model.sample.groups.items():
        each = found[topic]
        each.lag += group.behind
        if group.rate is not None:
            each.passed = (each.passed or 0.0) + group.rate
    return found


def _exact(model: Model, topic: str) -> bool:
    there = model.sample.topics.get(topic)
    return there is None or there.exact


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")
