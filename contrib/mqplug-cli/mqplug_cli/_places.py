"""Durations, times and places in a log as arguments: 10m, earliest, latest, -100, @2026-01-31T12:00, @-10m, #1234."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import click

import mqplug

UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as 10m, or None if the text is not one."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text)
    return None if found is None or float(found[1]) == 0 else float(found[1]) * UNIT_SECONDS[found[2]]


def duration_option(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return the seconds of an option's value, for its ``callback``."""
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(
            f"{text!r} is not a duration; write one such as 60s, 10m, 1h, 2d or 1w", context, parameter
        )
    return seconds


PLACES_HELP = "earliest, latest, -N (the last N of each partition), @TIME, @-10m (ten minutes ago), an id or a position"
OFFSET_HELP: Final = "#N (the offset N of the partition that -p names)"
_FEWEST_MILLISECONDS = 100_000_000_000  # 1973: a smaller number is meant as seconds


class Offset(NamedTuple):
    """The offset of a message, as other tools show it. With a partition, it is a position."""

    coordinates: tuple[int, ...]

    def position(
        self, mq: mqplug.Client, topics: Sequence[str], partitions: Sequence[int], timeout: float
    ) -> mqplug.Position:
        """Return the position in the one given partition."""
        if len(topics) != 1 or len(partitions) != 1:
            raise click.UsageError("An offset belongs to one partition. Name one topic, and its partition with -p.")
        marks = mq.watermarks(topics[0], timeout=timeout).get(partitions[0])
        if marks is None:
            raise click.UsageError(f"{topics[0]} has no partition {partitions[0]}.")
        if len(marks.low.coordinates) != len(self.coordinates):
            shown = ":".join(map(str, marks.low.coordinates))
            raise click.UsageError(f"An offset of {mq.backend} has {len(marks.low.coordinates)} numbers: #{shown}")
        return mqplug.Position(marks.low.log, self.coordinates)


class Place(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """A place in a log, as ``Client.resolve`` takes it. An id means the place of its message.

    A verb with ``-p`` may also take ``offsets``.
    """

    name = "place"

    def __init__(self, *, offsets: bool = False) -> None:
        self._offsets = offsets

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> mqplug.Start | Offset:
        """Return the start that a text names."""
        if not isinstance(value, str):
            start: mqplug.Start = value  # a default
            return start
        if re.fullmatch(r"#\d+(:\d+)*", value, re.ASCII):
            if self._offsets:
                return Offset(tuple(map(int, value[1:].split(":"))))
            self.fail(f"{value!r} is the offset of one partition. Use an id, as describe prints it, or a position")
        try:
            return place_of(value)
        except ValueError as error:
            self.fail(f"{error}, {OFFSET_HELP}" if self._offsets and "is not a place" in str(error) else str(error))


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time: 2026-01-31T12:00, milliseconds since 1970, or -10m, with or without the @ of a place."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> mqplug.Start:
        """Return the start that a text names."""
        try:
            return _moment_of(str(value).removeprefix("@"))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def place_of(text: str) -> mqplug.Start:
    """Return the start that a text names. Raise ``ValueError`` with the ways to write one."""
    if text in {"earliest", "beginning"}:
        return mqplug.EARLIEST
    if text in {"latest", "end"}:
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
    raise ValueError(f"{text!r} is not a place in a log. Use {PLACES_HELP}")


def _moment_of(text: str) -> mqplug.Start:
    """Return a time: a duration ago, milliseconds since 1970, or a date, which is local unless it has a zone."""
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
            f"{text!r} is not a time. Use 2026-01-31, 2026-01-31T12:00:00Z, milliseconds since 1970, or -10m "
            "(also with s, h, d and w)"
        ) from None
