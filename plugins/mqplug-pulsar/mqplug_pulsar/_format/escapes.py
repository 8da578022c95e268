"""Keys and headers in Pulsar's narrower types: without loss, and as plain text for other clients where possible.

Pulsar has text keys, where an empty key is no key, and properties: text by name, without order. README.md describes
how everything else is written.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping
from typing import Any

from mqplug.spi import Headers

ESCAPE = "mqplug:base64:"
INDEX = "mqplug.headers"
EPOCH = "mqplug.epoch"  # marks an event time of 0, which Pulsar treats as no event time
SCHEMA_VERSION = "mqplug.schema-version"
"""The header with the version of a message's schema. It is read from the message and never sent: a copy has the version
of its own topic's schema.
"""
_OWN = {INDEX, EPOCH}


def key_to_text(key: bytes) -> str:
    """Return a key as text, escaped unless it is plain text."""
    text = _plain(key)
    if text and not text.startswith(ESCAPE):
        return text
    return ESCAPE + b64encode(key).decode()


def key_from_text(text: str) -> bytes | None:
    """Return the key in a text; None if it is empty."""
    if not text:
        return None
    if text.startswith(ESCAPE):
        try:
            return b64decode(text[len(ESCAPE) :], validate=True)
        except NotBase64:
            pass  # another producer's key that only looks escaped
    return text.encode("utf-8", "surrogateescape")


def keys_from_texts(texts: Iterable[str]) -> list[bytes | None]:
    """Return the key in each text."""
    first = ESCAPE[0]
    return [text.encode() if text and text[0] != first else key_from_text(text) for text in texts]


def headers_to_properties(headers: Headers) -> dict[str, str]:
    """Return headers as properties, with an index if the properties by themselves would lose something."""
    properties: dict[str, str] = {}
    index: list[str | list[str | None]] = []
    for name, value in headers:
        if name == SCHEMA_VERSION:
            continue
        text = None if value is None else _plain(value)
        if text is not None and name and name not in properties and name not in _OWN:
            properties[name] = text
            index.append(name)
        else:
            index.append([name, None if value is None else b64encode(value).decode()])
    if index != sorted(properties):
        properties[INDEX] = json.dumps(index, separators=(",", ":"))
    return properties


def headers_from_properties(properties: Mapping[str, str]) -> Headers:
    """Return the headers in properties; headers of other producers are sorted by name."""
    if not properties:
        return ()
    plain = {name: text.encode("utf-8", "surrogateescape") for name, text in properties.items() if name not in _OWN}
    listed = _indexed(properties.get(INDEX), plain)
    return (*listed, *sorted(plain.items()))


def with_schema_version(headers: Headers, version: int) -> Headers:
    """Return the headers, plus the version of the message's schema unless it is -1, which means no schema."""
    return headers if version < 0 else (*headers, (SCHEMA_VERSION, b"%d" % version))


def _indexed(index: str | None, plain: dict[str, bytes]) -> list[tuple[str, bytes | None]]:
    """Return the headers that the index lists, and remove them from the plain ones."""
    if index is None:
        return []
    rest = dict(plain)
    try:
        listed = [_entry(entry, rest) for entry in json.loads(index)]
    except (ValueError, TypeError, KeyError):  # written by another producer
        return [(INDEX, index.encode())]
    for name in plain.keys() - rest.keys():
        del plain[name]
    return listed


def _entry(entry: Any, rest: dict[str, bytes]) -> tuple[str, bytes | None]:
    if isinstance(entry, str):
        return entry, rest.pop(entry)
    name, value = entry
    if not isinstance(name, str) or not isinstance(value, str | None):
        raise TypeError(entry)
    return name, None if value is None else b64decode(value, validate=True)


def _plain(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
