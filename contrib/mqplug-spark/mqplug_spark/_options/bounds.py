"""Where a read begins and ends: one point for all partitions, or one for each.

A point is the earliest, the latest, an offset, a position, a time, or a message id, which means the point just before
that message. As in spark-sql-kafka, ``startingTimestamp`` overrides ``startingOffsetsByTimestamp``, which overrides
``startingOffsets``; the same holds for the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import attrs

from mqplug import EARLIEST, LATEST, ConfigError, InvalidMessageId, MessageId, Position, Start, at_time
from mqplug.spi import Earliest, Latest
from mqplug_spark._options.topic_selection import by_partition, load_object, short

LATEST_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999, the last time that mqplug accepts

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_SECONDS: Final = range(10**9, 10**10)  # the years 2001 to 2286; as milliseconds, the first months of 1970
_SPAN: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.ASCII)

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

Side = Literal["starting", "ending"]
CHECKPOINT: Final = "checkpoint:"


@attrs.frozen
class Time:
    """A time that an option names, in milliseconds after 1970 or, if ``relative``, before the planning of the read."""

    milliseconds: int
    relative: bool = False

    def start(self, now_ms: int) -> Start:
        """Return the start that this time means for a read planned at ``now_ms``."""
        return at_time(max(0, now_ms - self.milliseconds) if self.relative else self.milliseconds)


def is_relative(text: str) -> bool:
    """Return whether a text looks like a relative time, such as ``-10 minutes``."""
    return re.fullmatch(r"-\s*[0-9]+\s*[A-Za-z]+", text.strip()) is not None


def parse_time(option: str, where: str, value: object) -> Time:
    """Parse a time from a number or a text. Raise ``ConfigError`` if it is not a time."""
    if isinstance(value, str) and is_relative(value):
        return Time(parse_span(option, value.strip()[1:]), relative=True)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in _SECONDS:
        raise ConfigError(
            f"{option}: {where} is {value}, which looks like seconds",
            fix=f"Write milliseconds since 1970, as in {value}000",
        )
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LATEST_TIME_MS:
        return Time(value)
    raise ConfigError(
        f"{option}: {where} must be a time, not {str(value)[:60]!r}",
        fix="Write milliseconds since 1970, or a relative time such as '-10 minutes'",
    )


def parse_span(option: str, text: str) -> int:
    """Return the milliseconds of a duration such as ``15m``; a number without a unit is milliseconds."""
    found = _SPAN.fullmatch(text.strip().lower())
    unit = None if found is None else _UNITS_MS.get(found[2] or "ms")
    if found is None or unit is None or int(found[1]) * unit > LATEST_TIME_MS:
        raise ConfigError(
            f"{option} must be a duration, not {text[:60]!r}", fix="Write one such as '15m' or '10 minutes'"
        )
    return int(found[1]) * unit


@attrs.frozen
class Offset:
    """The offset of a message, on backends whose ids have one part."""

    number: int


Point = Earliest | Latest | Offset | Position | Time


def parse_point(option: str, where: str, value: object) -> Point:
    """Return the point that a JSON value names. An end cannot be the earliest."""
    if isinstance(value, str):
        return parse_time(option, where, value) if is_relative(value) else _place(option, where, value)
    starting = option.startswith("starting")
    lowest = EARLIEST_OFFSET if starting else LATEST_OFFSET
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise ConfigError(
            f"{option}: {where} cannot be {short(value)}",
            fix=f"Write an offset, {'-2 for the earliest, ' if starting else ''}-1 for the latest, "
            f"or the text of a position or message id",
        )
    return EARLIEST if value == EARLIEST_OFFSET else LATEST if value == LATEST_OFFSET else Offset(value)


def _place(option: str, where: str, text: str) -> Position:
    try:
        if text.startswith("m"):
            message_id = MessageId.parse(text)
            return Position(message_id.log, message_id.coordinates)
        return Position.parse(text)
    except InvalidMessageId as error:
        raise ConfigError(f"{option}: {where}: {error.message}", fix=error.fix) from None


@attrs.frozen
class Bound:
    """A start or an end, as ``option`` set it: one point ``everywhere``, or one for ``each`` partition of a topic."""

    option: str
    everywhere: Point | None = None
    each: Mapping[str, Mapping[int, Point]] = attrs.field(factory=dict)

    def check_topics(self, topics: Sequence[str]) -> None:
        """Raise ``ConfigError`` unless points are given for exactly these topics."""
        if self.everywhere is not None:
            return
        missing, extra = set(topics) - set(self.each), set(self.each) - set(topics)
        if missing:
            raise ConfigError(
                f"{self.option} does not name the topic {min(missing)!r}", fix="Name every topic that is read"
            )
        if extra:
            raise ConfigError(f"{self.option} names the topic {min(extra)!r}, which is not read", fix="Remove it")


def parse_bound(side: Side, found: Mapping[str, str], default: Point) -> Bound:
    """Return the start or the end of a read. Option names in ``found`` are in lower case."""
    moment, moments, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    bounds = [
        *(Bound(moment, parse_time(moment, "the value", found[name])) for name in [moment.lower()] if name in found),
        *(_named(moments, found[name], parse_time) for name in [moments.lower()] if name in found),
        *(_offsets(side, offsets, found[name]) for name in [offsets.lower()] if name in found),
    ]
    return bounds[0] if bounds else Bound(offsets, default)


def _offsets(side: Side, option: str, text: str) -> Bound:
    word = text.strip().lower()
    words = {"latest": LATEST} | ({"earliest": EARLIEST} if side == "starting" else {})
    if word in words:
        return Bound(option, words[word])
    if is_relative(word):
        return Bound(option, parse_time(option, "the value", word))
    if word.startswith("{"):
        return _named(option, text, parse_point)
    example = json.dumps({"orders": {"0": 42}})
    raise ConfigError(f"{option} must be {', '.join(reversed(words))}, or JSON such as {example}, not {short(text)}")


def _named(option: str, text: str, parse: Callable[[str, str, object], Point]) -> Bound:
    topics = load_object(option, text)
    each = {
        topic: {
            partition: parse(option, f"{topic}[{partition}]", value)
            for partition, value in by_partition(option, topic, values).items()
        }
        for topic, values in topics.items()
    }
    return Bound(option, each=each)
