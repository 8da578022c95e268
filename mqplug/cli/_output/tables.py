"""Prints rows as a table, as wide as the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

TableRow = Mapping[str, Any]


def show_table(columns: Sequence[str], rows: Sequence[TableRow]) -> None:
    """Print rows under the names of their columns, numbers right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numbers = bool(rows) and all(type(row[name]) is int for row in rows)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_as_text(row[name])) for name in columns))
    console = Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")  # nor bold
    if not console.is_terminal:
        console.width = 10_000  # output for programs is never wrapped
    console.print(table)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
