"""The changes that top offers: the input of each, its effect, and the equivalent command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import click

from mqplug_cli._effects import loss, moves, removals, summary, total
from mqplug_cli._output import settings_text
from mqplug_cli._places import PLACES_HELP, place_of
from mqplug_cli._top import short_texts
from mqplug_cli._top.model import Subject
from mqplug_cli._top.table import Column, Row
from mqplug_cli._topic_settings import BackendOption, RetentionTime, Size

MOVE_COLUMNS: Final = (
    Column("PARTITION", wide=True),
    Column("FROM", right=True),
    Column("TO", right=True),
    Column("COME AGAIN", right=True),
    Column("PASSED OVER", right=True),
)
REMOVAL_COLUMNS: Final = (
    Column("PARTITION", wide=True),
    Column("FROM", right=True),
    Column("TO", right=True),
    Column("MESSAGES", right=True),
)
SETTING_COLUMNS: Final = (Column("SETTING", wide=True), Column("NOW"), Column("THEN"))


@attrs.frozen
class Field:
    """An input field of a change: its name and a hint."""

    name: str
    hint: str


@attrs.frozen
class Plan:
    """The effect of a change in rows and in a sentence, the equivalent command line, and a function that applies it.

    ``obstacle`` is the reason if it cannot be done now.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    summary: str
    command: str
    apply: Callable[[], str]
    obstacle: str | None = None


class Change(Protocol):
    """A change: its title, its input fields, and the name to type as confirmation."""

    @property
    def title(self) -> str:
        """The title of the screen."""
        ...

    @property
    def fields(self) -> Sequence[Field]:
        """The input fields."""
        ...

    @property
    def confirmation(self) -> str:
        """The name to type as confirmation."""
        ...

    def plan(self, typed: Mapping[str, str]) -> Plan:
        """Return the plan for this input. Raise ``ValueError`` or ``click.UsageError`` if it is invalid."""
        ...


@attrs.frozen
class Seek:
    """Moving a group on a topic."""

    subject: Subject
    group: str
    topic: str
    fields = (Field("to", PLACES_HELP),)

    @property
    def title(self) -> str:
        """The title of the screen."""
        return f"Move the group {self.group} on {self.topic}"

    @property
    def confirmation(self) -> str:
        """The name to type as confirmation."""
        return self.group

    def plan(self, typed: Mapping[str, str]) -> Plan:
        """Return the old and the new position in each partition."""
        mq, timeout = self.subject.client, self.subject.timeout
        to = place_of(typed["to"])
        members = mq.describe_group(self.group, timeout=timeout).members
        found = list(moves(mq, self.group, to, [self.topic], "error", timeout))
        rows = [
            Row(
                each.partition,
                (
                    str(each.partition),
                    short_texts.place(each.start),
                    short_texts.place(each.until),
                    *map(_number, (each.again, each.passed)),
                ),
            )
            for each in found
        ]

        def apply() -> str:
            mq.reset_group(self.group, self.topic, to, must_exist=True, timeout=timeout)
            return f"moved {self.group} on {self.topic}"

        return Plan(
            MOVE_COLUMNS, rows, summary(found),
            command(self.subject, "seek", self.group, "--topic", self.topic, "--to", typed["to"]), apply,
            f"refused while it has members: {', '.join(map(str, members))}" if members else None,
        )  # fmt: skip


@attrs.frozen
class Trim:
    """Removing the beginning of a topic."""

    subject: Subject
    topic: str
    fields = (Field("before", PLACES_HELP),)

    @property
    def title(self) -> str:
        """The title of the screen."""
        return f"Remove the messages of {self.topic} before a place"

    @property
    def confirmation(self) -> str:
        """The name to type as confirmation."""
        return self.topic

    def plan(self, typed: Mapping[str, str]) -> Plan:
        """Return the number of messages to remove from each partition."""
        mq, timeout = self.subject.client, self.subject.timeout
        found = removals(mq, self.topic, place_of(typed["before"]), None, timeout)
        lost = total(each.messages for each in found)
        rows = [
            Row(
                each.partition,
                (
                    str(each.partition),
                    short_texts.place(each.start),
                    short_texts.place(each.until),
                    short_texts.count(*each.messages),
                ),
            )
            for each in found
        ]

        def apply() -> str:
            mq.trim(self.topic, {each.partition: each.until for each in found}, timeout=timeout)
            return f"removed {lost} from {self.topic}"

        words = command(self.subject, "trim", self.topic, "--before", typed["before"])
        return Plan(REMOVAL_COLUMNS, rows, f"{lost} will be removed", words, apply)


@attrs.frozen
class Alter:
    """Changing settings of a topic."""

    subject: Subject
    topic: str
    fields = (
        Field("retention", "how long messages are kept: 12h, 7d, forever"),
        Field("retention-bytes", "how much of each partition: 64k, 10m, 2g"),
        Field("options", "the backend's own: NAME=VALUE NAME=VALUE"),
    )

    @property
    def title(self) -> str:
        """The title of the screen."""
        return f"Change the settings of {self.topic}"

    @property
    def confirmation(self) -> str:
        """The name to type as confirmation."""
        return self.topic

    def plan(self, typed: Mapping[str, str]) -> Plan:
        """Return the new settings, and the messages that they remove."""
        mq, timeout = self.subject.client, self.subject.timeout
        settings, words = _settings(typed)
        info = mq.describe(self.topic, timeout=timeout)
        lost = loss(mq, self.topic, settings, timeout)

        def apply() -> str:
            return f"altered {self.topic}: {settings_text(mq.alter_topic(self.topic, timeout=timeout, **settings))}"

        rows = [Row(name, (name, "", then)) for name, then in words]
        return Plan(
            SETTING_COLUMNS, rows,
            f"now {settings_text(info)}; " + (f"this removes {lost}" if lost else "this removes no message"),
            command(self.subject, "alter", self.topic, *(part for name, then in words for part in (name, then))), apply,
        )  # fmt: skip


def command(subject: Subject, verb: str, *words: str) -> str:
    """Return the command line of a verb for the same backend."""
    return shlex.join(["mqplug", verb, *subject.words, *words])


def _settings(typed: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return settings as the client takes them, and as options of the command line."""
    settings: dict[str, Any] = {}
    words = []
    if typed["retention"]:
        settings["retention"] = RetentionTime().convert(typed["retention"], None, None)
        words.append(("--retention", typed["retention"]))
    if typed["retention-bytes"]:
        settings["retention_bytes"] = Size().convert(typed["retention-bytes"], None, None)
        words.append(("--retention-bytes", typed["retention-bytes"]))
    options = shlex.split(typed["options"])
    if options:
        settings["options"] = dict(BackendOption().convert(each, None, None) for each in options)
        words += [("-X", each) for each in options]
    if not settings:
        raise click.UsageError("nothing to change: type into a field")
    return settings, words


def _number(number: int | None) -> str:
    return short_texts.UNKNOWN if number is None else f"{number:,}"
