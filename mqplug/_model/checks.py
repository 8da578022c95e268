"""Checks of arguments: numbers, retentions, and ``missing=``."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

Retention = float | timedelta
"""A retention as callers give it: a number of seconds, or a timedelta."""

SHORTEST_NUMBER_S: Final = 60  # of a retention that is not a timedelta


def whole_number(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most``. Raise ``TypeError`` or ``ValueError`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {kind_of(value)}")
    if least is not None and most is not None and not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, not {value}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    return value


def number(name: str, value: object, kind: str = "a number") -> float:
    """Return a number. Raise ``TypeError`` for anything else; ``kind`` names the expected number in the error."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be {kind}, not {kind_of(value)}")
    return value


def retention_seconds(retention: Retention | None) -> float | None:
    """Return a retention in seconds; None stands for the default.

    A number below 60 raises ``ValueError``, because 7 almost certainly means days. A timedelta may be of any length.
    """
    if retention is None:
        return None
    if isinstance(retention, timedelta):
        seconds = retention.total_seconds()
    else:
        seconds = float(number("retention", retention, "a number of seconds or a timedelta"))
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"retention must be at least 0 seconds, not {retention}")
    if seconds < SHORTEST_NUMBER_S and not isinstance(retention, timedelta):
        raise ValueError(
            f"retention of {seconds:g} would be {seconds:g} seconds: a number below {SHORTEST_NUMBER_S} needs a "
            f"timedelta, timedelta(days={seconds:g}) or timedelta(seconds={seconds:g})"
        )
    return seconds


def check_missing(missing: object) -> None:
    """Raise ``ValueError`` unless ``missing`` is one of the two words."""
    if missing not in {"error", "next"}:
        raise ValueError(f"missing must be 'error' or 'next', not {missing!r}")


def kind_of(value: object) -> str:
    """Return the type's name, and how to turn a timedelta into a number of seconds."""
    return "timedelta: pass its total_seconds()" if isinstance(value, timedelta) else type(value).__name__
