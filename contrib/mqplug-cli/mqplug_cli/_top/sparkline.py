"""Sparklines: numbers as a line of small bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BARS: Final = "_.-=+*#@"  # for terminals whose font has no bars


def sparkline(numbers: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """Return the last ``width`` numbers as bars, right-aligned. The highest is a full bar, an unknown one a space."""
    shown = numbers[-width:] if width else []
    top = max((each for each in shown if each is not None), default=0.0)
    return "".join(_bar(each, top, bars) for each in shown).rjust(width)


def _bar(number: float | None, top: float, bars: str) -> str:
    if number is None:
        return " "
    if number <= 0 or top <= 0:
        return bars[0]
    return bars[max(1, round(number / top * (len(bars) - 1)))]
