"""The screens of one topic, and of one group on a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

import mqplug
from mqplug_cli._output.error_text import error_line
from mqplug_cli._output.topic_values import settings_text
from mqplug_cli._top.detail_rows import (
    PARTITION_COLUMNS,
    PLACE_COLUMNS,
    group_facts,
    members_line,
    partition_rows,
    place_rows,
    topic_facts,
)
from mqplug_cli._top.layout import Column, Row
from mqplug_cli._top.model import Model
from mqplug_cli._top.parts import Answer, ModelScreen, ask
from mqplug_cli._top.sample import GroupKey
from mqplug_cli._top.subject import Subject
from mqplug_cli._top.table import Table


class Detail(ModelScreen):
    """Facts above, partitions below. What does not change by itself is asked for once."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.leave_screen", "Back")]
    COLUMNS: ClassVar[Sequence[Column]]

    def __init__(self, subject: Subject, bars: str) -> None:
        super().__init__()
        self.subject = subject
        self.bars = bars
        self._facts = Static(id="facts", markup=False)
        self._table = Table(self.COLUMNS, id="partitions")
        self._described = "…"
        self._known: tuple[Model, float] = (Model(), 0.0)

    def compose(self) -> ComposeResult:
        """Show the parts."""
        yield self.status
        yield self._facts
        yield self._table
        yield Footer()

    def on_mount(self) -> None:
        """Begin in the partitions."""
        self.set_focus(self._table)

    def on_screen_resume(self) -> None:
        """Ask again after a change."""
        ask(self, "describe", self.describe)

    def on_answer(self, answer: Answer) -> None:
        """Show what was asked for."""
        outcome = answer.outcome
        if not self.live:
            return
        if isinstance(outcome, Exception) and not isinstance(outcome, mqplug.Error):
            raise outcome
        self._described = error_line(outcome) if isinstance(outcome, mqplug.Error) else str(outcome)
        self.show(*self._known)

    def show(self, model: Model, now: float) -> None:
        """Draw what is known."""
        self._known = (model, now)
        self.say_status(model, now, f"{self.heading()}  {self.subject.shown}")
        self._facts.update(f"{self._described}\n{self.facts(model)}")
        self._table.show_rows(self.rows(model))

    def heading(self) -> str:
        """Return what is looked at."""
        raise NotImplementedError

    def describe(self) -> str:
        """Ask the backend. Runs in a thread."""
        raise NotImplementedError

    def facts(self, model: Model) -> str:
        """Return what the samples tell."""
        raise NotImplementedError

    def rows(self, model: Model) -> list[Row]:
        """Return the rows."""
        raise NotImplementedError


class OneTopic(Detail):
    """A topic: its settings, its partitions, and the groups that read it."""

    COLUMNS = PARTITION_COLUMNS

    def __init__(self, subject: Subject, bars: str, topic: str) -> None:
        super().__init__(subject, bars)
        self.topic = topic

    def heading(self) -> str:
        """Return the name of the topic."""
        return self.topic

    def describe(self) -> str:
        """Ask for the retention."""
        return settings_text(self.subject.client.describe(self.topic, timeout=self.subject.timeout))

    def chosen_topic(self) -> str:
        """Return the topic."""
        return self.topic

    def facts(self, model: Model) -> str:
        """Return rates and groups."""
        return topic_facts(model, self.topic, self.bars)

    def rows(self, model: Model) -> list[Row]:
        """Return the partitions."""
        return partition_rows(model, self.topic)


class OneGroup(Detail):
    """A group on a topic: its members, and where it stands."""

    COLUMNS = PLACE_COLUMNS

    def __init__(self, subject: Subject, bars: str, key: GroupKey) -> None:
        super().__init__(subject, bars)
        self.key = key

    def heading(self) -> str:
        """Return the names of group and topic."""
        return f"{self.key[0]} on {self.key[1]}"

    def chosen_topic(self) -> str:
        """Return the topic."""
        return self.key[1]

    def chosen_group(self) -> GroupKey:
        """Return the group."""
        return self.key

    def describe(self) -> str:
        """Ask for the members."""
        return members_line(self.subject.client.describe_group(self.key[0], timeout=self.subject.timeout))

    def facts(self, model: Model) -> str:
        """Return the rate."""
        return group_facts(model, self.key, self.bars)

    def rows(self, model: Model) -> list[Row]:
        """Return the group's positions."""
        return place_rows(model, self.key)
