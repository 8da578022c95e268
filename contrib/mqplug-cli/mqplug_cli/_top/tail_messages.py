"""The messages of a tail: each as a row, and in full as a page."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

import attrs

import mqplug
from mqplug_cli._top.figures import one_line
from mqplug_cli._top.layout import Column, Row

KEPT_BYTES: Final = 16 * 1024  # of each value
TAIL_COLUMNS: Final = (
    Column("TIME"),
    Column("PARTITION", right=True),
    Column("POSITION", right=True, most=20),
    Column("KEY", most=20),
    Column("VALUE", wide=True),
)
_ROW_BYTES: Final = 300
_HEX_LINE: Final = 16
_PRINTABLE: Final = range(32, 127)


@attrs.frozen(eq=False)
class TailMessage:
    """A message as it is shown. Of a large value only the beginning is kept."""

    row: Row
    id: str
    time: str
    key: bytes | None
    value: bytes | None
    size: int
    headers: tuple[tuple[str, bytes | None], ...]

    def contains(self, text: str) -> bool:
        """Return whether key, value or headers contain a text; A to Z are as a to z."""
        wanted = text.encode().lower()
        named = (part for name, value in self.headers for part in (name.encode(), value))
        return any(wanted in part.lower() for part in (self.key, self.value, *named) if part is not None)


def tail_message(number: int, message: mqplug.Message) -> TailMessage:
    """Return a message as it is shown. Its row stands for its number."""
    key, value = message.key, message.value
    try:
        time = message.timestamp.astimezone().isoformat(sep=" ", timespec="milliseconds")
    except mqplug.InvalidTimestamp:
        time = "impossible"
    cells = (
        time.partition(" ")[2][:12], str(message.partition), ":".join(map(str, message.id.coordinates)),
        "" if key is None else one_line(key[:_ROW_BYTES]), one_line(None if value is None else value[:_ROW_BYTES]),
    )  # fmt: skip
    kept = None if value is None else value[:KEPT_BYTES]
    return TailMessage(Row(number, cells), str(message.id), time, key, kept, len(value or b""), tuple(message.headers))


def page(message: TailMessage) -> str:
    """Return all that is kept of a message as text."""
    _, partition, position, *_ = message.row.cells
    lines = [
        f"partition  {partition}",
        f"position   {position}",
        f"id         {message.id}",
        f"time       {message.time}",
        f"key        {'(none)' if message.key is None else one_line(message.key)}",
        *(f"header     {name}: {'(none)' if value is None else one_line(value)}" for name, value in message.headers),
        f"value      {'(tombstone)' if message.value is None else f'{message.size:,} bytes'}",
    ]
    if message.value:
        lines += ["", value_text(message.value)]
    if message.value is not None and len(message.value) < message.size:
        lines.append(f"… and {message.size - len(message.value):,} bytes more")
    return "\n".join(lines)


def value_text(value: bytes) -> str:
    """Return a value as text: JSON indented, other UTF-8 as it is, and bytes that are no text in hexadecimal."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(_hex_line(value, at) for at in range(0, len(value), _HEX_LINE))
    with suppress(ValueError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return "\n".join(one_line(line.encode(errors="replace")) for line in text.splitlines())


def _hex_line(value: bytes, at: int) -> str:
    part = value[at : at + _HEX_LINE]
    shown = "".join(chr(byte) if byte in _PRINTABLE else "." for byte in part)
    return f"{at:06x}  {part.hex(' '):<47}  {shown}"
