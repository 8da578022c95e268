"""Retention as callers give it: a number of seconds, or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

from mqplug._model.checks import number

Retention = float | timedelta

SHORTEST_NUMBER_S: Final = 60


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
