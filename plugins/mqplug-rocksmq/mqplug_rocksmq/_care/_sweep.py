"""Reading everything that a column family holds, around what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqplug import Error
from mqplug_rocksmq._pages import Pages

_MOST: Final = 4 << 20
_WIDTH: Final = 24  # bytes of the keys that are tried: no two damaged places lie nearer to each other


class Hole(NamedTuple):
    """Keys from *start* on, up to *stop* (None: to the end), which cannot be read."""

    start: bytes
    stop: bytes | None
    error: Error


def sweep(pages: Pages, family: str) -> Iterator[tuple[bytes, bytes] | Hole]:
    """Yield all keys with their values, in order, and the holes between them."""
    start: bytes | None = b""
    while start is not None:
        found, error = pages.sweep(family, start, _MOST)
        yield from found
        if found:
            start = found[-1][0] + b"\0"
        if error:
            beyond = _beyond(pages, family, start)
            yield Hole(start, beyond, error)
            start = beyond
        elif not found:
            return


def _beyond(pages: Pages, family: str, start: bytes) -> bytes | None:
    """Return the first key of some length from which on something can be read again."""
    low, high = int.from_bytes(start[:_WIDTH].ljust(_WIDTH, b"\0"), "big") + 1, 1 << 8 * _WIDTH
    while low < high:
        middle = (low + high) // 2
        found, error = pages.sweep(family, middle.to_bytes(_WIDTH, "big"), 1)
        if error and not found:
            low = middle + 1
        else:
            high = middle
    return None if low >= 1 << 8 * _WIDTH else low.to_bytes(_WIDTH, "big")
