"""Format strings as kcat has them: ``%t [%p] %o: %k %s``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import mqplug
    from mqplug_cli._messages.envelopes import Headers

FORMAT_HELP: Final = (
    "%t topic, %p partition, %o offset, %T timestamp in milliseconds, %k key, %K its length, %s value, %S its length, "
    "%R the same as four bytes, %h headers, %% a percent sign, \\n \\r \\t \\\\ \\xFF"
)
_TOKEN = re.compile(rb"%(.?)|\\(x[0-9A-Fa-f]{2}|[^x]|x|$)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"0": b"\0"}

_Text = Callable[[bytes], bytes]
_Column = Callable[["mqplug.Batch", _Text, _Text], Iterable[bytes]]


class FormatString:
    """A format string, which writes the messages of a batch."""

    def __init__(self, text: str, key_text: _Text | None = None, value_text: _Text | None = None) -> None:
        """Raise ``ValueError`` for a token that there is not. The functions say how bytes are shown."""
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
        if found[1] not in _COLUMNS:
            raise ValueError(f"there is no {whole.decode(errors='replace')!r}; there are {FORMAT_HELP}")
        return _COLUMNS[found[1]]
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


_COLUMNS: Mapping[bytes, _Column] = {
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
