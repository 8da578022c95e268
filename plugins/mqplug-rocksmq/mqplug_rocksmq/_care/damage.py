"""Damage: reading around it, and the findings of a check or repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import attrs

from mqplug import Error
from mqplug_rocksmq._engine.rocks import Pages

_MAX_READ_BYTES: Final = 4 << 20
_KEY_BYTES: Final = 24  # of the keys that are tried: the resolution of the search


@attrs.frozen
class Finding:
    """One defect of a store. Missing messages are at the offsets from *start* up to *stop*, exclusive."""

    what: str
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    stop: int | None = None


@attrs.define
class SurveyReport:
    """The result of a survey. ``store`` is the store's id in the database."""

    store: str | None = None
    pages: int = 0
    messages: int = 0
    topics: int = 0
    groups: int = 0
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    def add(self, what: str, topic: str | None = None, partition: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(what, topic, partition))


SkipTo = Callable[[bytes], bytes]


class UnreadableKeys(NamedTuple):
    """Unreadable keys from *start* up to *stop* (None: to the end)."""

    start: bytes
    stop: bytes | None
    error: Error


def read_around_damage(
    pages: Pages, family: str, start: bytes | None = b"", stop: bytes | None = None, onward: SkipTo = lambda key: key
) -> Iterator[tuple[bytes, bytes] | UnreadableKeys]:
    """Yield all entries from *start* up to *stop*, in order, and the unreadable keys between them.

    *onward* maps the next key to the one to continue at, in order to skip unwanted keys.
    """
    while start is not None and (stop is None or start < stop):
        found, error = pages.read_until_error(family, start, _MAX_READ_BYTES)
        yield from (each for each in found if stop is None or each[0] < stop)
        if found:
            start = onward(found[-1][0] + b"\0")
        if error:
            beyond = _beyond(pages, family, start)
            yield UnreadableKeys(start, beyond, error)
            start = beyond
        elif not found:
            return


def _beyond(pages: Pages, family: str, start: bytes) -> bytes | None:
    """Return the first key from which entries can be read again, or None."""
    low, high = int.from_bytes(start[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big") + 1, 1 << 8 * _KEY_BYTES
    while low < high:
        middle = (low + high) // 2
        found, error = pages.read_until_error(family, middle.to_bytes(_KEY_BYTES, "big"), 1)
        if error and not found:
            low = middle + 1
        else:
            high = middle
    return None if low >= 1 << 8 * _KEY_BYTES else low.to_bytes(_KEY_BYTES, "big")
