"""Reading everything that a column family holds, around what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mqplug import Error
from mqplug_rocksmq._engine.rocks import Pages

_MOST: Final = 4 << 20
_WIDTH: Final = 24  # bytes of the keys that are tried: no two damaged places lie nearer to each other


Onward = Callable[[bytes], bytes]


class Hole(NamedTuple):
    """Keys from *start* on, up to *stop* (None: to the end), which cannot be read."""

    start: bytes
    stop: bytes | None
    error: Error


def sweep(
    pages: Pages, family: str, start: bytes | None = b"", stop: bytes | None = None, onward: Onward = lambda key: key
) -> Iterator[tuple[bytes, bytes] | Hole]:
    """Yield all keys from *start* up to *stop* with their values, in order, and the holes between them.

    *onward* tells where to go on instead of a key: it may leave out what is not wanted.
    """
    while start is not None and (stop is None or start < stop):
        found, error = pages.sweep(family, start, _MOST)
        yield from (each for each in found if stop is None or each[0] < stop)
        if found:
            start = onward(found[-1][0] + b"\0")
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
