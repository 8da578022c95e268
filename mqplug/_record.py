"""Records: what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

import attrs

from mqplug._errors import Unsupported
from mqplug._position import to_milliseconds

if TYPE_CHECKING:
    from mqplug.spi._descriptor import Capabilities

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
        if self.headers:
            size += sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return size


def check(
    value: bytes | None, key: bytes | None, headers: HeadersArgument, timestamp: datetime | int | None
) -> CheckedRecord:
    """A record as drivers get it, or ``TypeError`` and ``ValueError`` before any I/O."""
    return CheckedRecord(
        value if type(value) is bytes else _bytes("value", value),
        key if key is None or type(key) is bytes else _bytes("key", key),
        check_headers(headers) if headers else (),
        None if timestamp is None else to_milliseconds(timestamp),
    )


def takes_everything(able: Capabilities) -> bool:
    """Whether a backend takes all that a record can have."""
    return able.null_payload and able.keys and able.headers and able.timestamps_producer


def check_declared(record: CheckedRecord, able: Capabilities) -> None:
    """``Unsupported`` for what a record has and the backend does not take."""
    uses = {
        "null_payload": record.value is None,
        "keys": record.key is not None,
        "headers": bool(record.headers),
        "timestamps_producer": record.timestamp is not None,
    }
    for capability, used in uses.items():
        if used and not getattr(able, capability):
            raise Unsupported(capability, operation="send")


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
