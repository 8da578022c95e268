"""Records: what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import cast

import attrs

from mqplug._position import to_milliseconds

Headers = tuple[tuple[str, bytes | None], ...]
HeadersArgument = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


@attrs.define
class Record:
    """A message to be sent. Only the value is needed; ``None`` is a tombstone.

    ``timestamp`` is a datetime with a time zone or milliseconds since 1970; without one the log's own time counts.
    An explicit ``partition`` wins over the key. ``topic`` is for producers that were opened without one.
    """

    value: bytes | None
    key: bytes | None = None
    headers: HeadersArgument = ()
    timestamp: datetime | int | None = None
    partition: int | None = None
    topic: str | None = None


@attrs.define
class CheckedRecord:
    """A record as drivers get it: types checked, headers a tuple, time in milliseconds."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int | None

    @property
    def size(self) -> int:
        """Bytes of value, key and headers together."""
        size = len(self.value or b"") + len(self.key or b"")
        return size + sum(len(name.encode()) + len(value or b"") for name, value in self.headers)


def check(record: Record) -> CheckedRecord:
    """The record as drivers get it, or ``TypeError`` and ``ValueError`` before any I/O."""
    headers = check_headers(record.headers) if record.headers else ()
    timestamp = None if record.timestamp is None else to_milliseconds(record.timestamp)
    return CheckedRecord(_bytes("value", record.value), _bytes("key", record.key), headers, timestamp)


def check_headers(headers: HeadersArgument) -> Headers:
    """Headers as a tuple of pairs, each ``(str, bytes | None)``."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    checked = []
    for pair in cast("Iterable[object]", pairs):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"a header is a pair (name, value), not {pair!r}")
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a str, not {type(name).__name__}")
        checked.append((name, _bytes(f"header {name!r}", value)))
    return tuple(checked)


def _bytes(what: str, value: object) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes):
        return bytes(value)
    hint = "; encode it first, as in text.encode()" if isinstance(value, str) else "; call bytes(...) on it"
    raise TypeError(f"{what} is bytes or None, not {type(value).__name__}{hint}")
