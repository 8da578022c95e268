"""The output of ``consume``: raw values, JSON, a table, or a format string as in kcat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, cast

import mqplug
from mqplug_cli._messages.envelopes import NOT_JSON, envelopes_of, one_line_json, parsed_json

if TYPE_CHECKING:
    from mqplug_cli._messages.envelopes import Headers

DECODINGS: Final = ("utf8", "hex", "base64", "json")


def readable_text(data: bytes) -> str:
    """Return bytes as text, with escapes for bytes that are not UTF-8 and for unprintable characters."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def base64_text(data: bytes) -> str:
    """Return bytes in base64."""
    from base64 import b64encode

    return b64encode(data).decode()


def json_text(data: bytes) -> str:
    """Return a JSON document in one line, and other bytes as ``readable_text``."""
    value = parsed_json(data)
    return readable_text(data) if value is NOT_JSON else one_line_json(value)


TEXT_OF: Final[Mapping[str, Callable[[bytes], str]]] = {
    "utf8": readable_text,
    "hex": bytes.hex,
    "base64": base64_text,
    "json": json_text,
}
"""The function of each decoding."""


FORMAT_HELP: Final = (
    "%t topic, %p partition, %o offset, %T timestamp in milliseconds, %k key, %K its length, %s value, %S its length, "
    "%R its length as four bytes, %h headers, %% a percent sign, \\n \\r \\t \\\\ \\xFF"
)
_TOKEN = re.compile(rb"%(.?)|\\(x[0-9A-Fa-f]{2}|[^x]|x|$)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"0": b"\0"}

_Text = Callable[[bytes], bytes]
_Column = Callable[["mqplug.Batch", _Text, _Text], Iterable[bytes]]


class FormatString:
    """A format string for the messages of a batch."""

    def __init__(self, text: str, key_text: _Text | None = None, value_text: _Text | None = None) -> None:
        """Raise ``ValueError`` for an unknown token. The functions convert keys and values."""
        self._columns: list[bytes | _Column] = []
        self._key_text = key_text or _unchanged
        self._value_text = value_text or _unchanged
        data, end = text.encode("utf-8", "surrogateescape"), 0
        for found in _TOKEN.finditer(data):
            self._columns += [data[end : found.start()], _part(found)]
            end = found.end()
        self._columns.append(data[end:])

    def write(self, batch: mqplug.Batch) -> bytes:
        """Return the messages of a batch."""
        size = len(batch)
        columns = [
            repeat(part, size) if isinstance(part, bytes) else part(batch, self._key_text, self._value_text)
            for part in self._columns
            if part != b""
        ]
        return b"".join(chain.from_iterable(zip(*columns, strict=True)))


def _part(found: re.Match[bytes]) -> bytes | _Column:
    whole = found[0]
    if whole.startswith(b"%"):
        if found[1] == b"%":
            return b"%"
        if found[1] not in _TOKENS:
            raise ValueError(f"unknown token {whole.decode(errors='replace')!r}; expected one of {FORMAT_HELP}")
        return _TOKENS[found[1]]
    escape = found[2]
    if len(escape) > 1:
        return bytes([int(escape[1:], 16)])
    return _ESCAPES.get(escape, whole)


def _unchanged(data: bytes) -> bytes:
    return data


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(headers: Headers) -> bytes:
    return b",".join(
        b"%b=%b" % (name.encode("utf-8", "surrogatepass"), b"NULL" if value is None else value)
        for name, value in headers
    )


def offsets_of(batch: mqplug.Batch) -> Iterable[bytes]:
    """Yield the coordinates of each message, joined by colons."""
    return (b":".join(b"%d" % number for number in each) for each in batch.coordinates)


_TOKENS: Mapping[bytes, _Column] = {
    b"t": lambda batch, *_: repeat(batch.log.topic.encode(), len(batch)),
    b"p": lambda batch, *_: repeat(b"%d" % batch.log.partition, len(batch)),
    b"o": lambda batch, *_: offsets_of(batch),
    b"T": lambda batch, *_: (b"%d" % each for each in batch.timestamps),
    b"k": lambda batch, text, _: (text(each) if each else b"" for each in batch.keys),
    b"K": lambda batch, *_: (b"%d" % _length(each) for each in batch.keys),
    b"s": lambda batch, _, text: (text(each) if each else b"" for each in batch.values),
    b"S": lambda batch, *_: (b"%d" % _length(each) for each in batch.values),
    b"R": lambda batch, *_: (_length(each).to_bytes(4, "big", signed=True) for each in batch.values),
    b"h": lambda batch, *_: map(_headers, batch.headers),
}


Write = Callable[["mqplug.Batch"], bytes]
"""A function that returns the output for a batch."""

_TABLE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def raw_lines(batch: mqplug.Batch) -> bytes:
    """Return the values unchanged, one per line; a tombstone is an empty line."""
    values = batch.values
    try:
        return b"\n".join(cast("Sequence[bytes]", values)) + b"\n"
    except TypeError:  # a tombstone: looking for one first takes longer
        return b"\n".join([value or b"" for value in values]) + b"\n"


def json_lines(decode: str | None, decode_key: str | None) -> Write:
    """Return a function that writes each message as a JSON object on a line of its own."""

    def write(batch: mqplug.Batch) -> bytes:
        lines = map(one_line_json, envelopes_of(batch, decode or "utf8", decode_key or "utf8"))
        return "\n".join(lines).encode() + b"\n"

    return write


def formatted(text: str, decode: str | None, decode_key: str | None) -> Write:
    """Return a function that writes messages with a format string. Raise ``ValueError`` for an unknown token."""
    return FormatString(text, _text_bytes(decode_key), _text_bytes(decode)).write


def _text_bytes(decode: str | None) -> Callable[[bytes], bytes] | None:
    if decode is None:
        return None
    text_of = TEXT_OF[decode]
    return lambda data: text_of(data).encode()


class TableLines:
    """Writes messages as a table, each column as wide as its widest text so far."""

    def __init__(self, decode: str | None, decode_key: str | None) -> None:
        self._value_text = TEXT_OF[decode or "utf8"]
        self._key_text = TEXT_OF[decode_key or "utf8"]
        self._widths = [len(name) for name in _TABLE_COLUMNS]
        self._begun = False

    def write(self, batch: mqplug.Batch) -> bytes:
        """Return the lines of a batch. The names of the columns precede the first batch."""
        rows: list[tuple[str, ...]] = [] if self._begun else [_TABLE_COLUMNS]
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
