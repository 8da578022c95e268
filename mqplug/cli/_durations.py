"""Durations as options: 60s, 10m, 1h."""

from __future__ import annotations

import re

import click

UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def duration_option(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return the seconds of an option's value, for its ``callback``."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or float(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a duration; write one such as 60s, 10m or 1h", context, parameter)
    return float(found[1]) * UNIT_SECONDS[found[2]]
