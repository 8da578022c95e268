"""Bytes as text: how ``--decode`` shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

DECODINGS: Final = ("utf8", "hex", "base64", "json")


def readable_text(data: bytes) -> str:
    """Return bytes as text; what is no UTF-8, or is not printable, as escapes."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def hex_text(data: bytes) -> str:
    """Return bytes in hexadecimal."""
    return data.hex()


def base64_text(data: bytes) -> str:
    """Return bytes in base64."""
    from base64 import b64encode

    return b64encode(data).decode()


def json_text(data: bytes) -> str:
    """Return a JSON document in one line; what is none as ``readable_text``."""
    value = parsed_json(data)
    return readable_text(data) if value is NOT_JSON else one_line_json(value)


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
    except UnicodeEncodeError:  # half of a pair, which JSON can escape and UTF-8 cannot hold
        return json.dumps(value, separators=(",", ":"))
    return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


TEXT_OF: Final[Mapping[str, Callable[[bytes], str]]] = {
    "utf8": readable_text,
    "hex": hex_text,
    "base64": base64_text,
    "json": json_text,
}
"""What each decoding makes of bytes."""
