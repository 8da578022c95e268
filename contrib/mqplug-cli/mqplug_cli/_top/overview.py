"""The first screen of top: all topics, all groups, and the rates of the whole."""

from __future__ import annotations

import time
from typing import ClassVar, cast

import attrs
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input

from mqplug_cli._top.model import Model
from mqplug_cli._top.overview_rows import GROUP_COLUMNS, ORDERS, TOPIC_COLUMNS, View, group_rows, summary, topic_rows
from mqplug_cli._top.parts import ModelScreen, SearchField
from mqplug_cli._top.sample import GroupKey
from mqplug_cli._top.sparkline import BARS
from mqplug_cli._top.table import Table


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
        """Begin in the topics."""
        self.set_focus(self._table)

    def chosen_topic(self) -> str | None:
        """Return the topic under the cursor, or that of the group there."""
        key = self.chosen_group()
        return key[1] if key else cast("str | None", self.topics.cursor_key)

    def chosen_group(self) -> GroupKey | None:
        """Return the group under the cursor, where the cursor is in the groups."""
        return cast("GroupKey | None", self.groups.cursor_key) if self.focused is self.groups else None

    def why_no_group(self) -> str:
        """Return why no group is chosen, and what to do."""
        if not self._model.samples or self._model.sample.unasked:
            return "Still asking for the groups. Press s again when this one is there"
        if not self.groups.rows:
            return "There are no such groups" if self._view.text else "There are no groups"
        return super().why_no_group()

    def visible_groups(self) -> set[str]:
        """Return the names of the groups that are on the screen."""
        return {cast("GroupKey", key)[0] for key in self.groups.visible_keys()}

    def show(self, model: Model, now: float) -> None:
        """Draw what is known."""
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
        """Type what names are to contain."""
        self._search.open()

    def action_order(self) -> None:
        """Order the rows by the next column."""
        order = ORDERS[(ORDERS.index(self._view.order) + 1) % len(ORDERS)]
        self._look(attrs.evolve(self._view, order=order))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self._look(attrs.evolve(self._view, text=event.value))

    def on_input_submitted(self) -> None:
        """Keep the filter, and go on in the table."""
        self.set_focus(self._table)

    def on_search_field_cleared(self) -> None:
        """Show everything, and go on in the table."""
        self.set_focus(self._table)

    def _look(self, view: View) -> None:
        self._view = view
        self.show(self._model, time.monotonic())
