"""Durations as options: 60s, 10m, 1h, 2d, 1w."""

from __future__ import annotations

import re

import click

UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(text: str) -> float | None:
    """Return the seconds that a text such as 10m means, or None if it is no duration."""
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
