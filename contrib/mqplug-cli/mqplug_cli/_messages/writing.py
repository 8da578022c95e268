"""Writes messages to standard output: as they are, as JSON, as a table, or by a format string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from mqplug_cli._messages.decoding import TEXT_OF, one_line_json, readable_text
from mqplug_cli._messages.envelopes import envelopes_of
from mqplug_cli._messages.format_string import FormatString, offsets_of

if TYPE_CHECKING:
    import mqplug

Write = Callable[["mqplug.Batch"], bytes]
"""Makes the output of the messages of a batch."""

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def raw_lines(batch: mqplug.Batch) -> bytes:
    """Return the values as they are, a line each; a tombstone is an empty line."""
    values = batch.values
    try:
        return b"\n".join(cast("Sequence[bytes]", values)) + b"\n"
    except TypeError:  # a tombstone: looking for one first takes longer
        return b"\n".join([value or b"" for value in values]) + b"\n"


def json_lines(decode: str | None, decode_key: str | None) -> Write:
    """Return what writes each message as a JSON object on a line of its own."""

    def write(batch: mqplug.Batch) -> bytes:
        lines = map(one_line_json, envelopes_of(batch, decode or "utf8", decode_key or "utf8"))
        return "\n".join(lines).encode() + b"\n"

    return write


def formatted(text: str, decode: str | None, decode_key: str | None) -> Write:
    """Return what writes messages by a format string. Raise ``ValueError`` for an unknown token."""
    return FormatString(text, _text_bytes(decode_key), _text_bytes(decode)).write


def _text_bytes(decode: str | None) -> Callable[[bytes], bytes] | None:
    if decode is None:
        return None
    text_of = TEXT_OF[decode]
    return lambda data: text_of(data).encode()


class TableLines:
    """Writes messages as lines under the names of their columns, each column as wide as its texts so far."""

    def __init__(self, decode: str | None, decode_key: str | None) -> None:
        self._value_text = TEXT_OF[decode or "utf8"]
        self._key_text = TEXT_OF[decode_key or "utf8"]
        self._widths = [len(name) for name in _COLUMNS]
        self._begun = False

    def write(self, batch: mqplug.Batch) -> bytes:
        """Return the lines of a batch, those of the first batch under the names of the columns."""
        rows: list[tuple[str, ...]] = [] if self._begun else [_COLUMNS]
        self._begun = True
        rows += self._rows(batch)
        self._widths = [max(width, *(len(row[column]) for row in rows)) for column, width in enumerate(self._widths)]
        return "".join(map(self._line, rows)).encode()

    def _rows(self, batch: mqplug.Batch) -> list[tuple[str, ...]]:
        topic, partition = readable_text(batch.log.topic.encode("utf-8", "replace")), str(batch.log.partition)
        columns = (offsets_of(batch), batch.timestamps, batch.keys, batch.values)
        return [
            (
                topic,
                partition,
                offset.decode(),
                _time_text(timestamp),
                "" if key is None else self._key_text(key),
                "(null)" if value is None else self._value_text(value),
            )
            for offset, timestamp, key, value in zip(*columns, strict=True)
        ]

    def _line(self, row: tuple[str, ...]) -> str:
        *others, last = row
        return "  ".join([*map(str.ljust, others, self._widths), last]) + "\n"


def _time_text(milliseconds: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
