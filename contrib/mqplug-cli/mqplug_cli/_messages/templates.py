"""Texts with ``{{n}}`` and the like, filled in anew for each message of ``produce --count``."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

_FIELD = re.compile(r"\{\{ *([a-z]+)(?: +([0-9]+))? *\}\}")
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
MAX_RANDOM: Final = 1_000_000

TEMPLATE_HELP: Final = (
    "{{n}} the number of the message from 1, {{time}} the time in UTC, {{ms}} milliseconds since 1970, {{uuid}} a "
    "random UUID, {{random 16}} that many random letters and digits"
)


class Template:
    """A text with fields. ``fill`` makes the bytes of one message of it."""

    def __init__(self, text: str) -> None:
        """Raise ``ValueError`` for a field that there is not."""
        self._parts: list[bytes | Callable[[int], bytes]] = []
        end = 0
        for found in _FIELD.finditer(text):
            self._parts += [_encoded(text[end : found.start()]), _field(found)]
            end = found.end()
        self._parts.append(_encoded(text[end:]))

    def fill(self, number: int) -> bytes:
        """Return the bytes for the message with this number."""
        return b"".join(part if isinstance(part, bytes) else part(number) for part in self._parts)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # an argument may hold any bytes


def _field(found: re.Match[str]) -> Callable[[int], bytes]:
    name, size = found[1], found[2]
    if name == "random" and size is not None and 0 < int(size) <= MAX_RANDOM:
        return lambda _: bytes(random.choices(_LETTERS, k=int(size)))  # noqa: S311  no secret
    if name not in _FIELDS or size is not None:
        raise ValueError(f"there is no {found[0]}; there are {TEMPLATE_HELP}")
    return _FIELDS[name]


_FIELDS: Mapping[str, Callable[[int], bytes]] = {
    "n": lambda number: b"%d" % number,
    "time": lambda _: datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode(),
    "ms": lambda _: b"%d" % (time.time_ns() // 1_000_000),
    "uuid": lambda _: str(uuid4()).encode(),
}
