"""Numbers, rates, positions and bytes as short texts for a screen, and numbers as a line of small bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import mqplug
from mqplug_cli._output import position_text

UNKNOWN: Final = "-"
_DECIMAL_BELOW: Final = 10


def count(number: int, exact: bool = True) -> str:
    """Return a number of messages; an estimate begins with ~."""
    return f"{number:,}" if exact else f"~{number:,}"


def rate(number: float | None) -> str:
    """Return a rate per second, with a decimal if it is small."""
    if number is None:
        return UNKNOWN
    return f"{number:.1f}" if 0 < number < _DECIMAL_BELOW else f"{number:,.0f}"


def place(position: mqplug.Position | None) -> str:
    """Return the coordinates of a position."""
    return position_text(position) or UNKNOWN


def members(number: int | None) -> str:
    """Return a number of members."""
    return UNKNOWN if number is None else str(number)


def one_line(payload: bytes | None) -> str:
    """Return bytes as text in one line, without control characters. Bytes that are not UTF-8 are escaped."""
    if payload is None:
        return "(tombstone)"
    text = payload.decode("utf-8", errors="backslashreplace")
    return "".join(each if each.isprintable() else _visible(each) for each in text)


def _visible(character: str) -> str:
    return {"\n": "⏎", "\t": " ", "\r": ""}.get(character, "·")


def fitted(text: str, width: int, right: bool = False) -> str:
    """Return a text in exactly this many cells, shortened with … if it is longer."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…" if width else ""
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


BARS: Final = "▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH: Final = 20


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
