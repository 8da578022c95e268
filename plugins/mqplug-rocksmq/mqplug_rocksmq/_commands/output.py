"""Output of the commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_json(value: object) -> None:
    """Print one JSON value."""
    click.echo(json.dumps(value, indent=2))


def show_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under the names of their columns, numbers right-aligned."""
    texts = [list(names), *(["" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [bool(rows) and all(isinstance(row[at], int) for row in rows) for at in range(len(names))]
    for text in texts:
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(text, widths, right, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def sized(count: float) -> str:
    """Return a number of bytes for people to read."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def timed(seconds: float) -> str:
    """Return a duration for people to read."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds * 1e6:.0f} us"
