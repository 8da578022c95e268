"""Positions in a log, the starts that resolve to one, and the extent of a log: its watermarks and bounds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from mqplug._model.checks import number, whole_number
from mqplug._model.errors import Error
from mqplug._model.id_text import decode_text, encode_text
from mqplug._model.ids import MessageId, Place, _same_log
from mqplug._model.log import Log

LATEST_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999


class Position(Place):
    """A point between messages of one log: the coordinates of the next possible message.

    Positions of one log are totally ordered, and cannot be compared with ids. ``str(position)`` is the text form;
    ``Position.parse(text)`` reads it back.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return the position with this text. Raises ``InvalidMessageId`` unless this is exactly its text form."""
        log, coordinates, _ = decode_text("p", text)
        return cls(log, coordinates)

    def precedes(self, message_id: MessageId) -> bool:
        """Return whether this point is before that message."""
        return self.coordinates <= _same_log(self.log, message_id.log, message_id.coordinates)

    def __str__(self) -> str:
        return encode_text("p", self.log, self.coordinates)

    def __reduce__(self) -> tuple[Any, ...]:
        return Position, (self.log, self.coordinates)


class PositionLost(Error):
    """Retention removed a message at or after the wanted position. ``low`` is where the log begins now.

    A driver sets ``passable`` if the message is stored, but its client will never deliver it. Every consumer then
    continues at ``low``, and counts a gap.
    """

    fix = "Seek to EARLIEST, or pass missing='next'"
    passable = False

    def __init__(
        self,
        message: str,
        *,
        log: Log | None = None,
        low: Position | None = None,
        passable: bool = False,
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.log = log
        self.low = low
        self.passable = passable


@attrs.frozen
class Earliest:
    """The first retained message."""

    def __repr__(self) -> str:
        return "EARLIEST"


@attrs.frozen
class Latest:
    """After the last message that is stored at the time of the call, including open transactions."""

    def __repr__(self) -> str:
        return "LATEST"


@attrs.frozen
class Before:
    """Right before a message, which is delivered first."""

    id: MessageId


@attrs.frozen
class After:
    """Right after a message: the next one is delivered first."""

    id: MessageId


@attrs.frozen
class AtTime:
    """The first message in log order whose ``log_time`` is at or after this (milliseconds since 1970, UTC)."""

    milliseconds: int


@attrs.frozen
class Ago:
    """As ``AtTime``, counted back from the time of the call."""

    milliseconds: int

    def resolved(self) -> AtTime:
        """Return the time that this is now."""
        return AtTime(max(0, time.time_ns() // 1_000_000 - self.milliseconds))


@attrs.frozen
class Last:
    """The last ``count`` messages of each partition."""

    count: int


EARLIEST: Final = Earliest()
LATEST: Final = Latest()

Start = Earliest | Latest | Before | After | AtTime | Ago | Last | Position


def before(message_id: MessageId) -> Before:
    """Start with this message."""
    return Before(_an_id(message_id))


def after(message_id: MessageId) -> After:
    """Start with the message after this one."""
    return After(_an_id(message_id))


def at_time(moment: datetime | int) -> AtTime:
    """Start with the first message whose ``log_time`` is at or after the moment.

    The moment is a datetime with a time zone, or milliseconds since 1970.
    """
    return AtTime(to_milliseconds(moment))


def ago(*, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Ago:
    """Start this far back in time; ``ago(hours=1)`` is the last hour."""
    for part in (days, hours, minutes, seconds):
        number("each part of ago()", part, "a number, as in ago(hours=1)")
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if span < timedelta(0):
        raise ValueError("ago() looks back: the sum of its parts must not be negative")
    return Ago(span // timedelta(milliseconds=1))


def last(count: int) -> Last:
    """Start ``count`` messages before the end of each partition."""
    return Last(whole_number("the number of messages of last()", count, 0))


def to_milliseconds(moment: datetime | int) -> int:
    """Return a moment as milliseconds since 1970. Raise for naive datetimes and impossible times."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{moment!r} has no time zone: pass one, as in moment.replace(tzinfo=timezone.utc)")
        moment = (moment - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(moment, bool) or not isinstance(moment, int):
        hint = ": pass int(seconds * 1000)" if isinstance(moment, float) else ""
        kind = type(moment).__name__
        raise TypeError(f"a time must be a datetime or whole milliseconds since 1970, not {kind}{hint}")
    if not 0 <= moment <= LATEST_TIME_MS:
        raise ValueError(f"{moment} ms is not a time between the years 1970 and 9999")
    return moment


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the UTC time this many milliseconds after 1970. Raises ``OverflowError`` outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _an_id(message_id: MessageId) -> MessageId:
    if not isinstance(message_id, MessageId):
        raise TypeError(f"expected a MessageId, not {_no_id(message_id)}")
    return message_id


def _no_id(value: object) -> str:
    match value:
        case str():
            return "str; MessageId.parse reads its text"
        case Position():
            return "Position, which is a start by itself"
    return f"{type(value).__name__}; pass message.id" if hasattr(value, "id") else type(value).__name__


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen
class Watermarks:
    """The range of a partition's retained messages, from ``low`` to ``high``; ``count`` estimates their number.

    ``high`` is after all stored messages, including open transactions. An empty partition has ``low == high``.
    ``exact`` is True if the count is not an estimate. A read up to ``readable`` waits for no transaction; ``readable``
    is before ``high`` while one is open.
    """

    low: Position
    high: Position
    count: int
    exact: bool = False
    readable: Position = attrs.field(default=attrs.Factory(lambda self: self.high, takes_self=True))


@attrs.frozen
class Bounds:
    """The ids of the first and the last retained message of a partition; both None if it is empty.

    Messages of open transactions do not count.
    """

    first_id: MessageId | None
    last_id: MessageId | None
