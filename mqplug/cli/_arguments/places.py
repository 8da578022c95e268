"""Places in a log as arguments: earliest, latest, an id or a position, -100, @2026-01-31T12:00, @-10m."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mqplug.cli._arguments.durations import seconds_of

if TYPE_CHECKING:
    import mqplug

PLACES_HELP = "earliest, latest, -N (the last N of each partition), @TIME, @-10m (that long ago), an id or a position"
_FEWEST_MILLISECONDS = 100_000_000_000  # 1973: a smaller number was meant as seconds


class Place(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """A place in a log, as ``Client.resolve`` takes it. An id stands for itself: its message is the first."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> mqplug.Start:
        """Return the start that a text means."""
        if not isinstance(value, str):
            start: mqplug.Start = value  # a default
            return start
        try:
            return place_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time: 2026-01-31T12:00, milliseconds since 1970, or -10m, with or without the @ of a place."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> mqplug.Start:
        """Return the start that a text means."""
        try:
            return _moment_of(str(value).removeprefix("@"))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def place_of(text: str) -> mqplug.Start:
    """Return the start that a text means. Raise ``ValueError`` with the ways to write one."""
    import mqplug

    if text == "earliest":
        return mqplug.EARLIEST
    if text == "latest":
        return mqplug.LATEST
    if text.startswith("@"):
        return _moment_of(text[1:])
    if text.startswith("-") and text[1:].isascii() and text[1:].isdecimal():
        return mqplug.last(int(text[1:]))
    try:
        if text.startswith("m1~"):
            return mqplug.before(mqplug.MessageId.parse(text))
        if text.startswith("p1~"):
            return mqplug.Position.parse(text)
    except mqplug.InvalidMessageId as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"{text!r} is not a place in a log. Write {PLACES_HELP}")


def _moment_of(text: str) -> mqplug.Start:
    """Return a time: so long ago, milliseconds since 1970, or a date, which is of the local zone unless it has one."""
    import mqplug

    back = seconds_of(text[1:]) if text.startswith("-") else None
    if back is not None:
        return mqplug.ago(seconds=back)
    if text.isascii() and text.isdecimal():
        if int(text) < _FEWEST_MILLISECONDS:
            raise ValueError(f"{text!r} is too small for milliseconds since 1970. Add 000 if it is in seconds")
        return mqplug.at_time(int(text))
    try:
        return mqplug.at_time(datetime.fromisoformat(text).astimezone())
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time. Write 2026-01-31, 2026-01-31T12:00:00Z, milliseconds since 1970, or -10m"
        ) from None
