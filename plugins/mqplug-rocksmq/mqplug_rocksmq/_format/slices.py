"""Slices of pages, as reads return them, and runs of pages with one message each.

Single sends store pages of one message, which fill most of some logs. A fast path verifies and decodes many of them at
a time. It knows only pages made by ``encode_single``: any other page ends the run, and ``Page`` decodes that one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from mqplug_rocksmq._format.page import MAGIC, HeaderPairs, Page, PageColumns, encode_page, end_before

_SINGLE_BEGIN: Final = MAGIC + bytes((0, 0, 13, 0, 1, 0, 0, 0))  # no flags, 13 buffers, 1 message
_SINGLE_BEGIN_CRC: Final = crc32c(_SINGLE_BEGIN)
_HEAD: Final = Struct("<12sIQ16I")  # up to the length of the header lists
_AFTER_CRC_AT: Final = 16
_TIME: Final = Struct("<q")
_TIME_AT: Final = 128
_OFFSETS_BYTES: Final = 8  # two offsets
_MAX_GATHERED_PAGES: Final = 1000
_MAX_SINGLE_BYTES: Final = 4096  # ``Page`` makes fewer copies of larger pages


class _NotSingleError(Exception):
    """The page was not made by ``encode_single``."""


class Slice(NamedTuple):
    """Messages of one page, or of a run of single pages: the offsets ``base + start`` up to ``base + stop``."""

    base: int
    page: Page | SinglePages
    start: int
    stop: int

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.base + self.stop

    def as_page(self) -> Page:
        """Return the page whose messages ``start`` up to ``stop`` are the slice."""
        return self.page if isinstance(self.page, Page) else self.page.as_page()

    def __len__(self) -> int:
        return self.stop - self.start


class SinglePages:
    """A run of consecutive, verified pages of one message each, without headers."""

    __slots__ = ("_keys", "_latest", "_times", "_values", "before", "size")

    def __init__(self, before: int) -> None:
        self.before = before
        self.size = 0  # of the pages, in bytes
        self._latest = b""  # the page that was added last
        self._times: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self._times)

    def times(self) -> list[int]:
        """Return the timestamps, in milliseconds since 1970."""
        return self._times

    def keys(self) -> list[bytes | None]:
        """Return the keys."""
        return self._keys

    def values(self) -> list[bytes | None]:
        """Return the values."""
        return self._values

    def headers(self) -> list[HeaderPairs] | None:
        """Return None: no message has headers."""
        return None

    def as_page(self) -> Page:
        """Return all messages as one page."""
        if self.count == 1:
            return Page(self._latest)
        return Page(encode_page(PageColumns(self._times, self._values, self._keys)).seal(self.before))

    def add(self, raw: bytes, before: int) -> None:
        """Add the next page, if it is valid and follows the offset *before*."""
        (
            one, checksum, follows, time_at, time_size, _, key_gaps, key_at, key_offsets, key_start, key_size,
            _, value_gaps, value_at, value_offsets, value_start, value_size, _, headers,
        ) = _HEAD.unpack_from(raw)  # fmt: skip
        if (
            one != _SINGLE_BEGIN
            or len(raw) > _MAX_SINGLE_BYTES
            or follows != before
            or time_at != _TIME_AT
            or time_size != _TIME.size
        ):
            raise _NotSingleError
        if key_gaps or value_gaps or headers or crc32c(raw[_AFTER_CRC_AT:], _SINGLE_BEGIN_CRC) != checksum:
            raise _NotSingleError
        key = _item(raw, key_at, key_offsets, key_start, key_size) if key_offsets else None
        value = _item(raw, value_at, value_offsets, value_start, value_size) if value_offsets else None
        self._times += _TIME.unpack_from(raw, _TIME_AT)
        self.size += len(raw)
        self._latest = raw
        self._keys.append(key)
        self._values.append(value)


def _item(raw: bytes, at: int, size: int, start: int, length: int) -> bytes:
    """Return a key or value, after checking that the two offsets before it match its length."""
    stop = start + length
    if size != _OFFSETS_BYTES or at % _OFFSETS_BYTES or start != at + _OFFSETS_BYTES or stop > len(raw):
        raise _NotSingleError
    if int.from_bytes(raw[at:start], "little") != length << 32:
        raise _NotSingleError
    return raw[start:stop]


def gather_single_pages(found: Sequence[tuple[int, bytes]], at: int) -> SinglePages | None:
    """Return the run of single pages from this index on, or None if the first page is not single."""
    first, raw = found[at]
    if not raw.startswith(_SINGLE_BEGIN):
        return None
    run = SinglePages(end_before(raw))
    with suppress(_NotSingleError, struct.error):
        run.add(raw, run.before)
        for end, (base, raw) in enumerate(islice(found, at + 1, at + _MAX_GATHERED_PAGES), first + 1):
            if base != end:
                break
            run.add(raw, end)
    return run if run.size else None
