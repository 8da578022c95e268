"""The output of verbs: tables for people, JSON or YAML for programs; positions and topics as text.

Tables fit the terminal. They do not need rich, which takes longer to load than most verbs take to run.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, Literal
from unicodedata import combining, east_asian_width

import click

import mqplug

Format = Literal["table", "json", "yaml"]
TableRow = Mapping[str, Any]
FOREVER = "forever"
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_SIZES = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_GAP: Final = "  "


class Output:
    """Prints the results of a verb in the chosen format."""

    def __init__(self, format_: Format) -> None:
        self.format = format_

    @property
    def for_people(self) -> bool:
        """Whether the output is for people."""
        return self.format == "table"

    def rows(self, columns: Sequence[str], rows: Sequence[TableRow]) -> None:
        """Print rows under the names of their columns, or as one list."""
        if self.for_people:
            show_table(columns, rows)
        else:
            self.value([{name: row[name] for name in columns} for row in rows])

    def value(self, value: object) -> None:
        """Print one value as JSON or YAML."""
        click.echo(_yaml(value) if self.format == "yaml" else json.dumps(value, indent=2), nl=self.format != "yaml")

    def line(self, value: object) -> None:
        """Print one of many values: as one line of JSON, or as one document of YAML."""
        click.echo(f"---\n{_yaml(value)}" if self.format == "yaml" else json.dumps(value), nl=self.format != "yaml")


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o`` to a command. The function receives ``output``."""

    @wraps(function)
    def call(*args: Any, output_format: Format, as_json: bool, **rest: Any) -> Any:
        return function(*args, output=Output("json" if as_json else output_format), **rest)

    call = click.option("--json", "as_json", is_flag=True, help="Same as -o json.")(call)
    return click.option(
        "-o", "--output", "output_format", type=click.Choice(["table", "json", "yaml"]), default="table",
        show_default=True, help="Output format.",
    )(call)  # fmt: skip


def _yaml(value: object) -> str:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        raise click.UsageError("-o yaml needs PyYAML. Run pip install 'mqplug[yaml]'")
    import yaml

    text: str = yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True)
    return text


def _plain(value: object) -> object:
    """Return the value as JSON would read it: YAML would write tuples as Python objects."""
    if isinstance(value, Mapping | list | tuple):
        return json.loads(json.dumps(value))
    return value


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
    """Shrink the widest columns until all fit."""
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
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum((2 if east_asian_width(each) in "WF" else 1) for each in text if not combining(each))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def position_text(position: mqplug.Position | None) -> str | None:
    """Return the coordinates of a position, separated by colons."""
    return None if position is None else ":".join(map(str, position.coordinates))


def topic_value(info: mqplug.TopicInfo) -> dict[str, Any]:
    """Return a topic's settings as JSON: retention in seconds, or "forever"; None where they are not reported."""
    endless = info.retention is not None and math.isinf(info.retention)
    return {
        "topic": info.name,
        "partitions": len(info.logs),
        "retention": FOREVER if endless else info.retention,
        "retention_bytes": info.retention_bytes,
        "options": dict(info.options),
    }


def settings_text(info: mqplug.TopicInfo) -> str:
    """Return a topic's settings in one line."""
    count = len(info.logs)
    return f"{count} partition{'' if count == 1 else 's'}, {retention_text(info)}"


def retention_text(info: mqplug.TopicInfo) -> str:
    """Return how long messages are kept, and how much of each partition, for people."""
    limits = [_time_text(info.retention)] if info.retention is not None else []
    limits += [f"{_size_text(info.retention_bytes)} of each partition"] if info.retention_bytes is not None else []
    return f"retention {', '.join(limits) or 'not reported'}"


def _time_text(seconds: float) -> str:
    if math.isinf(seconds):
        return FOREVER
    return next((f"{seconds / unit:g}{name}" for unit, name in _UNITS if seconds >= unit), f"{seconds:g}s")


def _size_text(size: int) -> str:
    return next((f"{size / unit:.4g} {name}" for unit, name in _SIZES if size >= unit), f"{size} bytes")
