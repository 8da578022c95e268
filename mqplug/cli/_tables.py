"""Prints rows: aligned columns for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

TableRow = Mapping[str, Any]


def show_rows(columns: Sequence[str], rows: Sequence[TableRow], as_json: bool) -> None:
    """Print rows under the names of their columns, or as one JSON list."""
    if as_json:
        show_json([{name: row[name] for name in columns} for row in rows])
    else:
        _show_table(columns, rows)


def show_json(value: object) -> None:
    """Print one JSON value."""
    click.echo(json.dumps(value, indent=2))


def _show_table(columns: Sequence[str], rows: Sequence[TableRow]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numbers = bool(rows) and all(type(row[name]) is int for row in rows)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_as_text(row[name])) for name in columns))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 10_000  # output for programs is never wrapped
    console.print(table)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
