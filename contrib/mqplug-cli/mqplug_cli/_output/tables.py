"""Prints rows as a table, as wide as the terminal. Without rich, which takes longer to load than most verbs to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final
from unicodedata import combining, east_asian_width

import click

TableRow = Mapping[str, Any]

_GAP: Final = "  "


def show_table(columns: Sequence[str], rows: Sequence[TableRow]) -> None:
    """Print rows under the names of their columns, numbers right-aligned."""
    cells = [[_as_text(row[name]) for name in columns] for row in rows]
    numbers = [bool(rows) and all(type(row[name]) is int for row in rows) for name in columns]
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    if sys.stdout.isatty():  # output for programs is never wrapped
        _narrow(widths, get_terminal_size().columns - len(_GAP) * (len(widths) - 1))
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    for line in _lines(columns, widths, numbers):
        click.echo(click.style(line, bold=True) if bold else line)
    for row in cells:
        for line in _lines(row, widths, numbers):
            click.echo(line)


def _narrow(widths: list[int], room: int) -> None:
    """Take from the widest columns what there is no room for."""
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1


def _lines(row: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a row: several, where a cell is wider than its column."""
    folded = [
        [cell] if _width(cell) <= width else wrap(cell, width, break_on_hyphens=False)
        for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*folded, fillvalue=""):
        yield _GAP.join(map(_padded, parts, widths, numbers)).rstrip()


def _padded(text: str, width: int, number: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if number else text + blanks


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum((2 if east_asian_width(each) in "WF" else 1) for each in text if not combining(each))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
