"""Points of a log as options name them: the earliest, the latest, an offset, a position, an id, or a time.

The text of a message id means the point just before that message.
"""

from __future__ import annotations

from typing import Final

import attrs

from mqplug import EARLIEST, LATEST, ConfigError, InvalidMessageId, MessageId, Position
from mqplug.spi import Earliest, Latest
from mqplug_spark._options.json_values import short
from mqplug_spark._options.times import Time, is_relative, parse_time

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1


@attrs.frozen
class Offset:
    """The number of a message, on backends whose ids have one part."""

    number: int


Point = Earliest | Latest | Offset | Position | Time


def parse_point(option: str, where: str, value: object) -> Point:
    """Return the point that a value in JSON names. An end is never the earliest."""
    if isinstance(value, str):
        return parse_time(option, where, value) if is_relative(value) else _place(option, where, value)
    starting = option.startswith("starting")
    lowest = EARLIEST_OFFSET if starting else LATEST_OFFSET
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise ConfigError(
            f"{option}: {where} is {short(value)}",
            fix=f"Write an offset, {'-2 for the earliest, ' if starting else ''}-1 for the latest, "
            f"or the text of a position or a message id",
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
