"""The screens of one topic, and of one group on a topic: facts above, partitions below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

import mqplug
from mqplug_cli._error_text import error_line
from mqplug_cli._output import settings_text
from mqplug_cli._top import short_texts
from mqplug_cli._top.model import GroupKey, Model, Subject
from mqplug_cli._top.parts import Answer, ModelScreen, ask
from mqplug_cli._top.table import Column, Row, Table

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
                str(partition), short_texts.place(marks.low), short_texts.place(marks.high),
                short_texts.count(marks.count, marks.exact), short_texts.rate(rates.get(partition)),
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
                str(partition), short_texts.place(positions.get(partition)), short_texts.place(marks.high),
                short_texts.count(group.lag.get(partition, 0), marks.exact),
            ),
            marked=False,
        )
        for partition, marks in sorted(there.marks.items())
    ]  # fmt: skip


def topic_facts(model: Model, topic: str, bars: str) -> str:
    """Return the rate of a topic and the groups that read it, line by line."""
    there = model.sample.topics.get(topic)
    if there is None:
        return "no such topic"
    lines = [_rates("in", there.rate, model.stored.of(topic), bars)]
    for (group, name), sample in sorted(model.sample.groups.items()):
        if name == topic:
            lag = short_texts.count(sample.behind, there.exact)
            lines.append(f"{group} lags by {lag}, {short_texts.rate(sample.rate)}/s")
    return "\n".join(lines)


def group_facts(model: Model, key: GroupKey, bars: str) -> str:
    """Return the rate of a group on a topic."""
    group = model.sample.groups.get(key)
    if group is None:
        return "the group has no position here"
    return _rates("out", group.rate, model.passed.of(key), bars)


def members_line(described: mqplug.GroupDescription) -> str:
    """Return the names of a group's members."""
    if described.members is None:
        return "members: the backend does not report them"
    return f"members: {', '.join(map(str, described.members)) or 'none'}"


def _rates(word: str, rate: float | None, before: Sequence[float | None], bars: str) -> str:
    line = short_texts.sparkline(before, 3 * short_texts.SPARKLINE_WIDTH, bars).lstrip()
    return f"{word} {short_texts.rate(rate)}/s  {line}"


class Detail(ModelScreen):
    """Facts above, partitions below. Data that does not change by itself is queried once."""

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
        """Focus the partitions."""
        self.set_focus(self._table)

    def on_screen_resume(self) -> None:
        """Query again after a change."""
        ask(self, "describe", self.describe)

    def on_answer(self, answer: Answer) -> None:
        """Show the answer."""
        outcome = answer.outcome
        if not self.live:
            return
        if isinstance(outcome, Exception) and not isinstance(outcome, mqplug.Error):
            raise outcome
        self._described = error_line(outcome) if isinstance(outcome, mqplug.Error) else str(outcome)
        self.show(*self._known)

    def show(self, model: Model, now: float) -> None:
        """Draw the known data."""
        self._known = (model, now)
        self.say_status(model, now, f"{self.heading()}  {self.subject.shown}")
        self._facts.update(f"{self._described}\n{self.facts(model)}")
        self._table.show_rows(self.rows(model))

    def heading(self) -> str:
        """Return the title."""
        raise NotImplementedError

    def describe(self) -> str:
        """Query the backend. Runs in a thread."""
        raise NotImplementedError

    def facts(self, model: Model) -> str:
        """Return the facts from the samples."""
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
        """Query the settings."""
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
    """A group on a topic: its members and positions."""

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
        """Query the members."""
        return members_line(self.subject.client.describe_group(self.key[0], timeout=self.subject.timeout))

    def facts(self, model: Model) -> str:
        """Return the rate."""
        return group_facts(model, self.key, self.bars)

    def rows(self, model: Model) -> list[Row]:
        """Return the group's positions."""
        return place_rows(model, self.key)
