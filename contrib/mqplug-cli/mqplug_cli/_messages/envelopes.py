"""Messages as JSON, one object per line, as ``consume --json`` writes and ``produce --json`` reads them.

UTF-8 bytes are text: ``"value": "two chairs"``. For others the name says how they are encoded: ``value_base64``,
``value_hex``, ``value_json``. So every byte is preserved; None is null.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import mqplug

Headers = tuple[tuple[str, bytes | None], ...]
MAX_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999: send() accepts no later time
_LONGEST_QUOTE: Final = 40


class BadEnvelope(ValueError):
    """A line that is not a valid envelope."""


def envelopes_of(batch: mqplug.Batch, decode: str = "utf8", decode_key: str = "utf8") -> Iterator[dict[str, Any]]:
    """Yield the messages of a batch as dicts that JSON can hold."""
    topic, partition = batch.log.topic, batch.log.partition
    columns = (batch.coordinates, batch.timestamps, batch.keys, batch.values, batch.headers, batch.ids)
    for coordinates, timestamp, key, value, headers, message_id in zip(*columns, strict=True):
        yield {
            "topic": topic,
            "partition": partition,
            "offset": ":".join(map(str, coordinates)),
            "timestamp": timestamp,
            **_written("key", key, decode_key),
            **_written("value", value, decode),
            "headers": _written_headers(headers),
            "id": str(message_id),
        }


def _written(name: str, data: bytes | None, decode: str = "utf8") -> dict[str, Any]:
    if data is None:
        return {name: None}
    if decode == "hex":
        return {f"{name}_hex": data.hex()}
    if decode == "json" and (value := parsed_json(data)) is not NOT_JSON:
        return {f"{name}_json": value}
    if decode != "base64":
        try:
            return {name: data.decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}_base64": b64encode(data).decode()}


def _written_headers(headers: Headers) -> list[dict[str, Any]]:
    return [{**_written_name(name), **_written("value", value)} for name, value in headers]


def _written_name(name: str) -> dict[str, str]:
    """Return a header's name, in base64 if it has surrogates because its bytes are not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return {"name_base64": b64encode(name.encode("utf-8", "surrogatepass")).decode()}
    return {"name": name}


def record_of(line: bytes, *, keeps_partition: bool = True) -> mqplug.Record:
    """Return the record that an envelope describes. Raise ``BadEnvelope`` with the reason if it is invalid."""
    envelope = _object_of(line)
    data = _bytes_in(envelope, "value")
    if data is _ABSENT:
        raise BadEnvelope('"value" is missing; a tombstone has "value": null')
    key = _bytes_in(envelope, "key")
    return mqplug.Record(
        data,
        key=None if key is _ABSENT else key,
        headers=_headers_in(envelope.get("headers")),
        timestamp=_whole_number(envelope, "timestamp", MAX_TIME_MS),
        partition=_whole_number(envelope, "partition", None) if keeps_partition else None,
    )


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        envelope = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadEnvelope(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:
        raise BadEnvelope(f"not JSON: {error}") from None
    if not isinstance(envelope, dict):
        raise BadEnvelope(f"an envelope must be a JSON object, not {_quoted(envelope)}")
    return envelope


_ABSENT: Any = object()


def _bytes_in(envelope: Mapping[str, Any], name: str) -> bytes | None:
    """Return the bytes of a member in any encoding, or ``_ABSENT``."""
    found = [(suffix, envelope[name + suffix]) for suffix in _READERS if name + suffix in envelope]
    if not found:
        absent: bytes | None = _ABSENT
        return absent
    if len(found) > 1:
        raise BadEnvelope(f'expected only one of "{name}{found[0][0]}" and "{name}{found[1][0]}"')
    suffix, value = found[0]
    if value is None and suffix != "_json":
        return None
    if not isinstance(value, str) and suffix != "_json":
        raise BadEnvelope(f'"{name}{suffix}" must be a string or null, not {_quoted(value)}')
    try:
        return _READERS[suffix](value)
    except ValueError as error:
        raise BadEnvelope(f'"{name}{suffix}" is not {_CONTENTS[suffix]}: {error}') from None


def _from_base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _json_bytes(value: object) -> bytes:
    return one_line_json(value).encode()


_READERS: Mapping[str, Callable[[Any], bytes]] = {
    "": str.encode, "_base64": _from_base64, "_hex": bytes.fromhex, "_json": _json_bytes,
}  # fmt: skip
_CONTENTS = {"": "text", "_base64": "base64", "_hex": "hexadecimal", "_json": "JSON"}


def _headers_in(headers: object) -> Headers:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        headers = [{"name": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list):
        raise BadEnvelope(f'"headers" must be a list or an object, not {_quoted(headers)}')
    return tuple(map(_header_in, headers))


def _header_in(header: object) -> tuple[str, bytes | None]:
    if not isinstance(header, dict):
        raise BadEnvelope(f'a header must be an object with "name" and "value", not {_quoted(header)}')
    name, value = _bytes_or_text(header), _bytes_in(header, "value")
    if value is _ABSENT:
        raise BadEnvelope(f'the header {_quoted(name)} has no "value", which may be null')
    return name, value


def _bytes_or_text(header: Mapping[str, Any]) -> str:
    if isinstance(name := header.get("name"), str):
        return name
    if isinstance(packed := header.get("name_base64"), str):
        try:
            return _from_base64(packed).decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise BadEnvelope(f'the "name_base64" of a header is invalid: {error}') from None
    raise BadEnvelope('a header has no "name"')


def _whole_number(envelope: Mapping[str, Any], name: str, most: int | None) -> int | None:
    number = envelope.get(name)
    if number is None:
        return None
    if type(number) is not int or number < 0 or (most is not None and number > most):
        kind = "milliseconds since 1970" if name == "timestamp" else "a non-negative integer"
        raise BadEnvelope(f'"{name}" must be {kind}, not {_quoted(number)}')
    return number


def _quoted(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


NOT_JSON: Final = object()


def parsed_json(data: bytes) -> object:
    """Return the value of a JSON document, or ``NOT_JSON``."""
    try:
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return NOT_JSON


_one_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def one_line_json(value: object) -> str:
    """Return a value as JSON in one line, as readable as UTF-8 allows."""
    text = _one_line(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape and UTF-8 cannot encode
        return json.dumps(value, separators=(",", ":"))
    return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
