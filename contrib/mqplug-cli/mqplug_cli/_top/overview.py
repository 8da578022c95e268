"""The first screen: all topics, all groups with their lag, and the total rates."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, cast

import attrs
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input

from mqplug_cli._top import short_texts
from mqplug_cli._top.model import GroupKey, Model
from mqplug_cli._top.parts import ModelScreen, SearchField
from mqplug_cli._top.short_texts import BARS
from mqplug_cli._top.table import Column, Row, Table

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
    """How the overview is shown: only names that contain ``text``, in this order, with these bars."""

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
    """The lag and rate of all groups on a topic."""

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
    """Return a row for each group and each of its topics, if either name contains the text."""
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
            key[0], key[1], short_texts.members(model.sample.members.get(key[0])),
            short_texts.count(group.behind, _exact(model, key[1])), short_texts.rate(group.rate),
            short_texts.sparkline(model.passed.of(key), short_texts.SPARKLINE_WIDTH, view.bars),
        )  # fmt: skip
        rows.append(Row(key, cells, marked=stuck(group.behind, group.rate)))
    return rows


def stuck(lag: int, rate: float | None) -> bool:
    """Return whether a group has messages to read and reads none."""
    return lag > 0 and rate == 0


def summary(model: Model) -> str:
    """Return the totals in one line."""
    sample = model.sample
    partitions = sum(len(topic.marks) for topic in sample.topics.values())
    parts: Sequence[str] = (
        _plural(len(sample.topics), "topic"), _plural(partitions, "partition"), _plural(len(sample.members), "group"),
        f"in {short_texts.rate(model.rate_in)}/s", f"out {short_texts.rate(model.rate_out)}/s",
    )  # fmt: skip
    return "  ".join(parts)


def _topic_row(model: Model, name: str, groups: _OfGroups, bars: str) -> Row:
    topic = model.sample.topics[name]
    cells = (
        name, str(len(topic.marks)), short_texts.count(topic.messages, topic.exact), short_texts.rate(topic.rate),
        short_texts.rate(groups.passed), short_texts.count(groups.lag, topic.exact),
        short_texts.sparkline(model.stored.of(name), short_texts.SPARKLINE_WIDTH, bars),
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


class Overview(ModelScreen):
    """Topics above, groups below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "other_table", "Topics/groups", show=True),
        Binding("slash", "search", "Filter", key_display="/"),
        Binding("o", "order", "Order"),
    ]

    def __init__(self, shown: str, bars: str = BARS) -> None:
        super().__init__()
        self._shown = shown
        self._view = View(bars=bars)
        self._model = Model()
        self.topics = Table(TOPIC_COLUMNS, id="topics", empty="asking …")
        self.groups = Table(GROUP_COLUMNS, id="groups", empty="asking …")
        self._search = SearchField(placeholder="names that contain", compact=True)
        self._table = self.topics  # where the cursor is

    def compose(self) -> ComposeResult:
        """Show the parts."""
        yield self.status
        yield self.topics
        yield self.groups
        yield self._search
        yield Footer()

    def on_mount(self) -> None:
        """Focus the topics."""
        self.set_focus(self._table)

    def chosen_topic(self) -> str | None:
        """Return the topic under the cursor, or the topic of the group there."""
        key = self.chosen_group()
        return key[1] if key else cast("str | None", self.topics.cursor_key)

    def chosen_group(self) -> GroupKey | None:
        """Return the group under the cursor, if the cursor is in the groups."""
        return cast("GroupKey | None", self.groups.cursor_key) if self.focused is self.groups else None

    def why_no_group(self) -> str:
        """Return why no group is chosen, and what to do."""
        if not self._model.samples or self._model.sample.unasked:
            return "Still asking for the groups. Press s again when this one appears"
        if not self.groups.rows:
            return "No groups match" if self._view.text else "No groups"
        return super().why_no_group()

    def visible_groups(self) -> set[str]:
        """Return the names of the groups that are on the screen."""
        return {cast("GroupKey", key)[0] for key in self.groups.visible_keys()}

    def show(self, model: Model, now: float) -> None:
        """Draw the known data."""
        self._model = model
        parts = [summary(model)]
        parts += [f"by {self._view.order}"] if self._view.order != "name" else []
        parts += [f"names with {self._view.text!r}"] if self._view.text else []
        self.say_status(model, now, "  ".join([*parts, self._shown]))
        asking = "asking …"
        self.topics.show_rows(topic_rows(model, self._view), "none" if model.samples else asking)
        groups = group_rows(model, self._view)
        self.groups.styles.height = min(len(groups) + 2, self.size.height // 2)
        self.groups.show_rows(groups, "none" if model.samples and not model.sample.unasked else asking)

    def action_other_table(self) -> None:
        """Move between topics and groups."""
        self._table = self.groups if self._table is self.topics else self.topics
        self.set_focus(self._table)

    def action_search(self) -> None:
        """Open the filter for names."""
        self._search.open()

    def action_order(self) -> None:
        """Order the rows by the next column."""
        order = ORDERS[(ORDERS.index(self._view.order) + 1) % len(ORDERS)]
        self._look(attrs.evolve(self._view, order=order))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the text is typed."""
        self._look(attrs.evolve(self._view, text=event.value))

    def on_input_submitted(self) -> None:
        """Keep the filter, and return to the table."""
        self.set_focus(self._table)

    def on_search_field_cleared(self) -> None:
        """Show everything, and return to the table."""
        self.set_focus(self._table)

    def _look(self, view: View) -> None:
        self._view = view
        self.show(self._model, time.monotonic())
