"""Checksums of a partition's messages in order, and of single messages.

They are the same on every backend and machine, however the messages are divided into batches. Each field is hashed
separately, column by column, which is several times faster than message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from struct import Struct, pack
from typing import Any, Final

import mqplug

FIELDS: Final = ("key", "value", "headers", "timestamp")
DIGEST_BYTES: Final = 16
_NONE: Final = -1  # the length of None
_NUMBER: Final = Struct("<q")


class PartitionChecksum:
    """The checksum of these ``fields`` of a run of messages, which depends on their order."""

    def __init__(self, fields: Iterable[str]) -> None:
        self._hashes = {name: (_hash(), _hash()) for name in FIELDS if name in fields}
        self.messages = 0
        self.bytes = 0  # of keys and values

    def add(self, batch: mqplug.Batch) -> None:
        """Add the messages of a batch."""
        self.messages += len(batch)
        self.bytes += sum(map(_length, batch.values)) + sum(map(_length, batch.keys))
        for name, (numbers, content) in self._hashes.items():
            column = column_of(batch, name)
            for half, piece in zip((numbers, content), _ENCODINGS[name](column), strict=True):
                half.update(piece)

    @property
    def text(self) -> str:
        """The checksum of all messages so far."""
        whole = _hash()
        for name, halves in self._hashes.items():
            whole.update(name.encode())
            for half in halves:
                whole.update(half.digest())
        text: str = whole.hexdigest()
        return text


def column_of(batch: mqplug.Batch, field: str) -> Sequence[Any]:
    """Return the column of a field."""
    return _COLUMNS[field](batch)


def message_digests(batch: mqplug.Batch, fields: Sequence[str]) -> Iterator[bytes]:
    """Iterate over the digests of single messages."""
    columns = [map(_ALONE[name], column_of(batch, name)) for name in fields]
    for pieces in zip(*columns, strict=True):
        yield blake2b(b"".join(pieces), digest_size=DIGEST_BYTES).digest()


def _hash() -> Any:
    return blake2b(digest_size=DIGEST_BYTES)


def _length(value: bytes | None) -> int:
    return 0 if value is None else len(value)


def _bytes_column(column: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    """Return the lengths of values, and the values joined."""
    try:
        return pack(f"<{len(column)}q", *map(len, column)), b"".join(column)  # type: ignore[arg-type]
    except TypeError:  # some are None
        lengths = (_NONE if each is None else len(each) for each in column)
        return pack(f"<{len(column)}q", *lengths), b"".join(each for each in column if each is not None)


def _time_column(column: Sequence[int]) -> tuple[bytes, bytes]:
    return pack(f"<{len(column)}q", *column), b""


def _headers_column(column: Sequence[Any]) -> tuple[bytes, bytes]:
    """Return the number of headers of each message, and the headers joined."""
    counts = pack(f"<{len(column)}q", *map(len, column))
    return counts, b"".join(_header(name, value) for headers in column for name, value in headers)


def _header(name: str, value: bytes | None) -> bytes:
    return _with_length(name.encode("utf-8", "surrogatepass")) + _with_length(value)


def _headers(headers: Sequence[Any]) -> bytes:
    return _NUMBER.pack(len(headers)) + b"".join(_header(name, value) for name, value in headers)


def _with_length(value: bytes | None) -> bytes:
    return _NUMBER.pack(_NONE) if value is None else _NUMBER.pack(len(value)) + value


_ENCODINGS: Final[Mapping[str, Callable[[Any], tuple[bytes, bytes]]]] = {
    "key": _bytes_column,
    "value": _bytes_column,
    "headers": _headers_column,
    "timestamp": _time_column,
}
_ALONE: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "key": _with_length,
    "value": _with_length,
    "headers": _headers,
    "timestamp": _NUMBER.pack,
}
_COLUMNS: Final[Mapping[str, Callable[[mqplug.Batch], Sequence[Any]]]] = {
    "key": lambda batch: batch.keys,
    "value": lambda batch: batch.values,
    "headers": lambda batch: batch.headers,
    "timestamp": lambda batch: batch.timestamps,
}
