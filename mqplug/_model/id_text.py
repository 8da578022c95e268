"""The text form of ids and positions: ASCII, URL-safe, versioned, canonical, lossless.

``m1~kafka~<cluster>~orders~0~<incarnation>~1042~~<crc32>``: kind and version, the log, the coordinates, the driver's
detail, and a checksum over everything before it. Fields are joined by ``~``. A plain name is written unchanged, any
other as ``.`` and unpadded base64url.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from itertools import repeat
from zlib import crc32

from mqplug._model.errors import InvalidMessageId
from mqplug._model.log import Log

Numbers = tuple[int, ...]

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
_NUMBER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_LONGEST = 4096


def encode_text(kind: str, log: Log, coordinates: Numbers, detail: Numbers = ()) -> str:
    """Return the text of an id (kind ``m``) or a position (kind ``p``)."""
    head, check = _head(kind, log)
    body = f"{'.'.join(map(str, coordinates))}~{'.'.join(map(str, detail))}~"
    return f"{head}{body}{crc32(body.encode(), check):08x}"


def encode_texts(kind: str, log: Log, coordinates: Sequence[Numbers], details: Sequence[Numbers] | None) -> list[bytes]:
    """Return the texts of many ids or positions of one log, as ASCII. Several times faster than ``encode_text``."""
    head, check = _head(kind, log)
    start = head.encode()
    if details is None and all(len(numbers) == 1 for numbers in coordinates):
        bodies = [b"%d~~" % number for (number,) in coordinates]
    else:
        bodies = [
            f"{'.'.join(map(str, numbers))}~{'.'.join(map(str, detail))}~".encode()
            for numbers, detail in zip(coordinates, details or repeat(()), strict=details is not None)
        ]
    return [b"%b%b%08x" % (start, body, crc32(body, check)) for body in bodies]


def decode_text(kind: str, text: str) -> tuple[Log, Numbers, Numbers]:
    """Return the parts of a text. Raise for anything except the exact text that ``encode_text`` writes."""
    if not isinstance(text, str):
        raise TypeError(f"the text form must be a str, not {_no_text(text)}")
    parts = text.split("~") if len(text) <= _LONGEST else []
    if len(parts) != 9 or parts[0] != f"{kind}1":
        raise _refusal(kind, text)
    try:
        backend, cluster, topic, incarnation = (_read_name(parts[i]) for i in (1, 2, 3, 5))
        log = Log(backend, cluster, topic, _read_number(parts[4]), incarnation)
        coordinates, detail = _read_numbers(parts[6]), _read_numbers(parts[7])
    except ValueError as error:
        raise _refusal(kind, text) from error
    if not coordinates or encode_text(kind, log, coordinates, detail) != text:
        raise _refusal(kind, text)
    return log, coordinates, detail


def _head(kind: str, log: Log) -> tuple[str, int]:
    """Return the part of the text that all ids of a log share, with its checksum, computed once for each log."""
    known = log.text
    if not isinstance(known, dict):
        known = {}
        object.__setattr__(log, "text", known)
    head: tuple[str, int] | None = known.get(kind)
    if head is None:
        names = (_name(log.backend), _name(log.cluster), _name(log.topic), str(log.partition), _name(log.incarnation))
        text = f"{kind}1~{'~'.join(names)}~"
        head = known[kind] = (text, crc32(text.encode()))
    return head


def _name(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    return "." + urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _read_name(field: str) -> str:
    if not field.startswith("."):
        return field
    packed = field[1:]
    return urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode("utf-8", "surrogatepass")


def _read_number(field: str) -> int:
    if not _NUMBER.fullmatch(field):
        raise ValueError(field)
    return int(field)


def _read_numbers(field: str) -> Numbers:
    return tuple(_read_number(part) for part in field.split(".")) if field else ()


def _no_text(value: object) -> str:
    return "bytes: decode it first" if isinstance(value, bytes) else type(value).__name__


def _refusal(kind: str, text: str) -> InvalidMessageId:
    what = "a message id" if kind == "m" else "a position"
    shown = text if len(text) <= 80 else text[:77] + "..."
    fix = "Pass the exact text that str(...) returned, unshortened"
    if text.startswith({"m": "p1~", "p": "m1~"}[kind]):
        fix = "Read it with Position.parse" if kind == "m" else "Read it with MessageId.parse"
    return InvalidMessageId(f"{shown!r} is not the text of {what}", fix=fix)
