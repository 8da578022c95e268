"""A table on the screen: columns and their widths, rows, and a cursor that keys move.

Only visible lines are drawn, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar, Final

import attrs
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mqplug_cli._top.short_texts import fitted

GAP: Final = 2
_LEAST_WIDE: Final = 12


@attrs.frozen
class Column:
    """A column: its title, whether it is right-aligned, whether it takes the remaining room, its maximum width."""

    title: str
    right: bool = False
    wide: bool = False
    most: int | None = None


@attrs.frozen
class Row:
    """A row: the key it stands for, and a text for each column. ``marked`` rows stand out."""

    key: Hashable
    cells: tuple[str, ...]
    marked: bool = False


def widths(columns: Sequence[Column], rows: Sequence[Row], room: int) -> list[int]:
    """Return the width of each column. Columns on the right that do not fit are left out."""
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


class Table(ScrollView, can_focus=True):
    """Rows under a fixed header. The cursor stays on its key when rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last", show=False),
        Binding("enter", "choose", "Open"),
    ]

    DEFAULT_CSS = """
    Table { height: 1fr; scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """

    class Chosen(Message):
        """Enter was pressed on a row."""

        def __init__(self, table: Table, key: Hashable) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            """The table."""
            return self.table

    class Scrolled(Message):
        """Other rows are visible, or the cursor moved."""

    def __init__(self, columns: Sequence[Column], *, id: str | None = None, empty: str = "") -> None:  # noqa: A002
        super().__init__(id=id)
        self._columns = columns
        self._rows: Sequence[Row] = ()
        self._empty = empty
        self._cursor = 0
        self._searched = ""
        self._sizes: tuple[int, list[int]] = (0, [])  # for a width

    def show_rows(self, rows: Sequence[Row], empty: str | None = None, *, follow: bool = False) -> None:
        """Replace the rows. ``empty`` is shown if there are none.

        With ``follow``, a cursor on the last row stays on the last row.
        """
        here = self.cursor_key
        at_end = follow and self._cursor >= len(self._rows) - 1
        self._rows = rows
        self._empty = self._empty if empty is None else empty
        self._sizes = (0, [])
        keys = [row.key for row in rows]
        last = max(len(rows) - 1, 0)
        self._cursor = last if at_end else keys.index(here) if here in keys else min(self._cursor, last)
        self.virtual_size = Size(0, len(rows) + 1)
        self._scroll_to_cursor()
        self.refresh()

    @property
    def rows(self) -> Sequence[Row]:
        """The rows."""
        return self._rows

    @property
    def cursor_key(self) -> Hashable | None:
        """The key of the row under the cursor."""
        return self._rows[self._cursor].key if self._cursor < len(self._rows) else None

    def visible_keys(self) -> list[Hashable]:
        """Return the keys of the visible rows."""
        top = self.scroll_offset.y
        return [row.key for row in self._rows[top : top + max(self.size.height - 1, 0)]]

    def point_at(self, key: Hashable) -> None:
        """Move the cursor to the row of this key, if there is one."""
        keys = [row.key for row in self._rows]
        if key in keys:
            self._move_to(keys.index(key))

    def highlight(self, text: str) -> None:
        """Make this text stand out in the rows."""
        self._searched = text.lower()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the header, or a row."""
        room = self.size.width
        sizes = self._widths(room)
        number = y - 1 + self.scroll_offset.y
        style = self.rich_style
        if y == 0:
            text, style = line(self._columns, [each.title for each in self._columns], sizes), style + Style(bold=True)
        elif number < len(self._rows):
            row = self._rows[number]
            text, style = line(self._columns, row.cells, sizes), style + self._style_of(number, row)
        else:
            text = self._empty if y == 1 and not self._rows else ""
        return Strip(list(self._segments(text, style))).adjust_cell_length(room, style)

    def _widths(self, room: int) -> list[int]:
        if self._sizes[0] != room or not self._sizes[1]:
            self._sizes = (room, widths(self._columns, self._rows, room))
        return self._sizes[1]

    def _segments(self, text: str, style: Style) -> Iterator[Segment]:
        """Yield the parts of a line. The searched text stands out."""
        at = text.lower().find(self._searched) if self._searched else -1
        while at >= 0:
            end = at + len(self._searched)
            yield Segment(text[:at], style)
            yield Segment(text[at:end], style + Style(bold=True, underline=True))
            text = text[end:]
            at = text.lower().find(self._searched)
        yield Segment(text, style)

    def _style_of(self, number: int, row: Row) -> Style:
        at_cursor = number == self._cursor
        return Style(
            reverse=at_cursor and self.has_focus,
            underline=at_cursor and not self.has_focus,
            bold=row.marked or None,
            color="yellow" if row.marked else None,
        )

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._move_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self._move_to(self._cursor + by * max(self.size.height - 2, 1))

    def action_first(self) -> None:
        """Move the cursor to the first row."""
        self._move_to(0)

    def action_last(self) -> None:
        """Move the cursor to the last row."""
        self._move_to(len(self._rows) - 1)

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self.cursor_key is not None:
            self.post_message(self.Chosen(self, self.cursor_key))

    def _move_to(self, number: int) -> None:
        self._cursor = min(max(number, 0), max(len(self._rows) - 1, 0))
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Scrolled())

    def _scroll_to_cursor(self) -> None:
        height = max(self.size.height - 1, 1)
        top = self.scroll_offset.y
        wanted = min(max(top, self._cursor - height + 1), self._cursor)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, immediate=True)
