"""Records to send, and the checks of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs

from mqplug._model.errors import Unsupported
from mqplug._model.message import Headers, Message
from mqplug._model.position import to_milliseconds

if TYPE_CHECKING:
    from mqplug.spi._descriptor import Capabilities

HeadersArgument = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


@attrs.define
class Record:
    """A message to send. Only the value is required.

    :param value: the payload; None is a tombstone.
    :param key: chooses the partition. None by default.
    :param headers: pairs of a name and a value, or a mapping; the values are bytes or None. Empty by default.
    :param timestamp: a datetime with a time zone, or milliseconds since 1970. By default the log sets its own time.
    :param partition: the partition, which overrides the key. By default the partitioner chooses.
    :param topic: the topic, for producers that were opened without one. By default the producer's.
    """

    value: bytes | None
    key: bytes | None = None
    headers: HeadersArgument = ()
    timestamp: datetime | int | None = None
    partition: int | None = None
    topic: str | None = None


def check_record(
    value: bytes | None, key: bytes | None, headers: HeadersArgument, timestamp: datetime | int | None
) -> tuple[bytes | None, bytes | None, Headers, int | None]:
    """Return the fields in the form that drivers get. Raise ``TypeError`` or ``ValueError`` before any I/O."""
    return (
        check_bytes("value", value),
        check_bytes("key", key),
        check_headers(headers) if headers else (),
        None if timestamp is None else to_milliseconds(timestamp),
    )


def size_of(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    """Return the bytes of value, key and headers together."""
    return len(value or b"") + len(key or b"") + (size_of_headers(headers) if headers else 0)


def size_of_headers(headers: Headers) -> int:
    """Return the bytes of the names and values of headers."""
    size = 0
    for name, value in headers:
        try:
            size += len(name.encode()) + len(value or b"")
        except UnicodeEncodeError:
            raise ValueError(f"a header's name must be text that UTF-8 can encode, not {name!r}") from None
    return size


def takes_everything(able: Capabilities) -> bool:
    """Return whether a backend takes every field that a record can have."""
    return able.null_payload and able.keys and able.headers and able.timestamps_producer


def check_declared(
    able: Capabilities, *, null_payload: bool, keys: bool, headers: bool, timestamps_producer: bool
) -> None:
    """Raise ``Unsupported`` for a used field that the backend does not take."""
    for capability, used in (
        ("null_payload", null_payload), ("keys", keys), ("headers", headers),
        ("timestamps_producer", timestamps_producer),
    ):  # fmt: skip
        if used and not getattr(able, capability):
            raise Unsupported(capability, operation="send")


def check_headers(headers: HeadersArgument) -> Headers:
    """Return headers as a tuple of pairs, each ``(str, bytes | None)``."""
    pairs = headers if type(headers) is tuple or type(headers) is list else _pairs_of(headers)
    checked = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"a header must be a tuple (name, value), not {type(pair).__name__}")
        name, value = pair
        if not isinstance(name, str):
            hint = "; decode it first, as in name.decode()" if isinstance(name, bytes) else ""
            raise TypeError(f"a header's name must be a str, not {type(name).__name__}{hint}")
        checked.append((name, value if type(value) is bytes else check_bytes(f"header {name!r}", value)))
    return tuple(checked)


def _pairs_of(headers: object) -> Iterable[Any]:
    pairs: object = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise TypeError(f"headers must be pairs (name, value), or a mapping, not {type(pairs).__name__}")
    return pairs


def check_bytes(what: str, value: object) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"{what} must be bytes or None, not {type(value).__name__}{_how_to_send(value)}")


def _how_to_send(value: object) -> str:
    """Return a hint for a value of the wrong type."""
    match value:
        case Message():
            return "; send its value, as in send(message.value, key=message.key)"
        case str():
            return "; encode it first, as in text.encode()"
        case bytearray() | memoryview():
            return "; call bytes(...) on it"
        case int() | float():
            return "; write it as text, as in str(number).encode()"
        case dict() | list() | tuple():
            return "; encode it first, as in json.dumps(data).encode()"
        case Record():
            return "; send_many() takes records"
    return ""
