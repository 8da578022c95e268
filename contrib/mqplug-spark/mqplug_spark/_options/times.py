"""Times as options write them: milliseconds since 1970, how long ago, and durations."""

from __future__ import annotations

import re
from typing import Final

import attrs

from mqplug import ConfigError, Start, at_time

LATEST_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999, the last that mqplug has

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_SECONDS: Final = range(10**9, 10**10)  # of the years 2001 to 2286; as milliseconds, of the first months of 1970
_SPAN: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.ASCII)


@attrs.frozen
class Time:
    """A time that an option names: so many milliseconds after 1970, or, if relative, before the read is planned."""

    milliseconds: int
    relative: bool = False

    def start(self, now_ms: int) -> Start:
        """Return the start that it means if the read is planned now."""
        return at_time(max(0, now_ms - self.milliseconds) if self.relative else self.milliseconds)


def is_relative(text: str) -> bool:
    """Return whether a text looks like a relative time, such as ``-10 minutes``."""
    return re.fullmatch(r"-\s*[0-9]+\s*[A-Za-z]+", text.strip()) is not None


def parse_time(option: str, where: str, value: object) -> Time:
    """Return the time that a number or a text names. Raise ``ConfigError`` if it names none."""
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
        f"{option}: {where} is {str(value)[:60]!r}, which is no time",
        fix="Write milliseconds since 1970, or how long ago, as in '-10 minutes'",
    )


def parse_span(option: str, text: str) -> int:
    """Return the milliseconds of a duration such as ``15m``; a number alone is milliseconds."""
    found = _SPAN.fullmatch(text.strip().lower())
    unit = None if found is None else _UNITS_MS.get(found[2] or "ms")
    if found is None or unit is None or int(found[1]) * unit > LATEST_TIME_MS:
        raise ConfigError(
            f"{option} is {text[:60]!r}, which is no duration", fix="Write one such as '15m' or '10 minutes'"
        )
    return int(found[1]) * unit
