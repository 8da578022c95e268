"""The columns of a table on the screen: how wide each is, and which there is no room for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import attrs

from mqplug_cli._top.figures import fitted

GAP: Final = 2
_LEAST_WIDE: Final = 12


@attrs.frozen
class Column:
    """A column: its title, whether it is of numbers, whether it takes the room that is left, its greatest width."""

    title: str
    right: bool = False
    wide: bool = False
    most: int | None = None


@attrs.frozen
class Row:
    """A row: what it stands for, and a text for each column. ``marked`` rows stand out."""

    key: Hashable
    cells: tuple[str, ...]
    marked: bool = False


def widths(columns: Sequence[Column], rows: Sequence[Row], room: int) -> list[int]:
    """Return the width of each column. Columns on the right that there is no room for are left out."""
    from rich.cells import cell_len

    found = []
    for number, column in enumerate(columns):
        most = max((cell_len(row.cells[number]) for row in rows), default=0)
        found.append(max(cell_len(column.title), min(most, column.most or most)))
    wide = next(number for number, column in enumerate(columns) if column.wide)
    found[wide] = 0
    while len(found) > wide + 1 and _gaps(found) + sum(found) + _LEAST_WIDE > room:
        found.pop()
    found[wide] = max(room - sum(found) - _gaps(found), 1)
    return found


def _gaps(sizes: Sequence[int]) -> int:
    return GAP * (len(sizes) - 1)


def line(columns: Sequence[Column], cells: Sequence[str], sizes: Sequence[int]) -> str:
    """Return cells as one line of text."""
    parts = zip(cells, sizes, columns, strict=False)
    return (" " * GAP).join(fitted(text, size, column.right) for text, size, column in parts)
