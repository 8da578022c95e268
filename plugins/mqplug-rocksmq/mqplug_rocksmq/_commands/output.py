"""Shared parts of the commands: options and arguments, tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

_PREFIX = "rocksmq://"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class StorePath(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The path of a store, or its URL."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = str(value)
        if text.startswith(_PREFIX):
            text = text.removeprefix(_PREFIX).partition("?")[0]
        elif "://" in text:
            self.fail(f"{text} is not a rocksmq URL", param, ctx)
        return Path(text).expanduser().absolute()


path_argument = click.argument("path", type=StorePath())
answer_timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), default=600, show_default=True, metavar="SECONDS",
    help="How long to wait for the process that has the store open.",
)  # fmt: skip
print_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


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
    """Return a human-readable number of bytes."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def timed(seconds: float) -> str:
    """Return a human-readable duration."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds * 1e6:.0f} us"
