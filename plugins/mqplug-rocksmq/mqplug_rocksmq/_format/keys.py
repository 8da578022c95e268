"""The keys and small values of a store's two column families.

``data`` holds pages under (segment, offset). ``meta`` holds everything else, under keys whose first byte is the kind.
Keys are big-endian, so that they sort. Values are little-endian, or JSON where people may want to read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from struct import Struct, error, pack
from typing import Any, Final, NamedTuple

STORE: Final = b"s"
COUNTER: Final = b"n"
CHANGES: Final = b"w"
TOPIC: Final = b"t"
LOG: Final = b"l"
TIME: Final = b"i"
GROUP: Final = b"g"
FREED: Final = b"c"
HANDED_OUT: Final = b"h"
JOURNAL: Final = b"o"
ORIGIN: Final = b"p"
INGESTED_RUN: Final = b"x"
INTENT: Final = b"j"
WRITER: Final = b"b"
TRANSACTION: Final = b"e"
STEP_MARK: Final = b"m"

NOT_UNDERSTOOD: Final = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, error)
"""The exceptions that decoding a damaged small value may raise."""

_PAGE_KEY: Final = Struct(">IQ")
PAGE_KEY_BYTES: Final = _PAGE_KEY.size
_LOG_KEY: Final = Struct(">cI")
_TIME_KEY: Final = Struct(">cIQQ")
LOG_RECORD: Final = Struct("<8Q")
_FORMAT_1_LOG_RECORD: Final = Struct("<7Q")  # without the number of changes
_MARK: Final = Struct("<QQ")
_RANGE: Final = Struct("<QQ")
_COUNT: Final = Struct("<Q")
_INGESTED_RUN_KEY: Final = Struct(">cIQ")
_INGESTED_RUN: Final = Struct("<IQQQ")


class LogRecord(NamedTuple):
    """The stored record of one log, written together with each of its pages."""

    low: int  # the first retained offset
    end: int  # the offset after the last message
    next: int  # the offset of the next message: greater than end if offsets were skipped
    leased: int  # no offset at or above this was ever assigned
    newest: int  # the largest timestamp so far
    size: int  # bytes of all pages ever stored
    messages: int  # messages ever stored: less than end if there are gaps


class TimeMark(NamedTuple):
    """An entry of the time index: the running maximum of timestamps up to and including the page at *base*."""

    time: int
    base: int
    size: int  # bytes of all pages stored before this one
    stored: int  # when it was stored, in milliseconds since 1970


class IngestedRun(NamedTuple):
    """Consecutive messages of a log in another segment, ingested from one staged file."""

    base: int  # the offset of the first
    segment: int
    start: int  # the offset of the first in that segment
    messages: int
    before: int  # the end of the log before this run

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.base + self.messages


class StoredPosition(NamedTuple):
    """A group's stored position in a log: the first message not acked, and the acked ranges after it."""

    offset: int
    acked: tuple[tuple[int, int], ...] = ()


page_key: Final[Callable[[int, int], bytes]] = _PAGE_KEY.pack
"""Returns the key of a page, from its segment, which is the number of its log, and its offset."""

read_page_key: Final[Callable[[bytes], tuple[int, int]]] = _PAGE_KEY.unpack
"""Returns the segment and offset of a page key."""


def log_key(log: int, kind: bytes = LOG) -> bytes:
    """Return the key of a log's record, or the key prefix of another *kind* of value for the log."""
    return _LOG_KEY.pack(kind, log)


def log_of(key: bytes) -> int:
    """Return the number of the log in a key."""
    return int.from_bytes(key[1:5], "big")


def log_value(record: LogRecord, changes: int = 0) -> bytes:
    """Encode a log's record, with the number of changes so far unless this write stores it elsewhere."""
    return LOG_RECORD.pack(*record, changes)


def read_log_value(value: bytes) -> LogRecord:
    """Decode a log's record."""
    return LogRecord._make(_log_numbers(value)[:7])


def read_log_changes(value: bytes) -> int:
    """Decode the number of changes in a log's record, or return 0 if it has none."""
    return sum(_log_numbers(value)[7:])


def _log_numbers(value: bytes) -> tuple[int, ...]:
    return (_FORMAT_1_LOG_RECORD if len(value) == _FORMAT_1_LOG_RECORD.size else LOG_RECORD).unpack(value)


def mark_key(log: int, time: int, base: int) -> bytes:
    """Return the key of an entry of the time index."""
    return _TIME_KEY.pack(TIME, log, time, base)


def mark_value(mark: TimeMark) -> bytes:
    """Encode the value of an entry of the time index."""
    return _MARK.pack(mark.size, mark.stored)


def read_mark(key: bytes, value: bytes) -> TimeMark:
    """Decode an entry of the time index."""
    _, _, time, base = _TIME_KEY.unpack(key)
    return TimeMark(time, base, *_MARK.unpack(value))


def ingested_run_key(log: int, base: int) -> bytes:
    """Return the key of an ingested run."""
    return _INGESTED_RUN_KEY.pack(INGESTED_RUN, log, base)


def ingested_run_value(run: IngestedRun) -> bytes:
    """Encode the value of an ingested run."""
    return _INGESTED_RUN.pack(*run[1:])


def read_ingested_run(key: bytes, value: bytes) -> IngestedRun:
    """Decode an ingested run."""
    _, _, base = _INGESTED_RUN_KEY.unpack(key)
    return IngestedRun(base, *_INGESTED_RUN.unpack(value))


@lru_cache(maxsize=1024)  # each commit needs one
def group_key(log: int, group: str) -> bytes:
    """Return the key of a group's position in a log."""
    return log_key(log, GROUP) + group.encode()


def group_of(key: bytes) -> str:
    """Return the group name in the key of a position."""
    return key[5:].decode()


def position_value(place: StoredPosition) -> bytes:
    """Encode a group's position."""
    if not place.acked:
        return _COUNT.pack(place.offset)
    return pack(f"<{1 + 2 * len(place.acked)}Q", place.offset, *chain.from_iterable(place.acked))


def read_position(value: bytes) -> StoredPosition:
    """Decode a group's position."""
    return StoredPosition(int.from_bytes(value[:8], "little"), tuple(_RANGE.iter_unpack(value[8:])))


def range_value(start: int, stop: int) -> bytes:
    """Encode a range of offsets."""
    return _RANGE.pack(start, stop)


def read_range(value: bytes) -> tuple[int, int]:
    """Decode a range of offsets."""
    start, stop = _RANGE.unpack(value)
    return start, stop


count_value: Final[Callable[[int], bytes]] = _COUNT.pack
"""Encodes a count."""


def read_count(value: bytes | None) -> int:
    """Decode a count. A missing one is 0."""
    return 0 if value is None else int(_COUNT.unpack(value)[0])


def transaction_key(name: str) -> bytes:
    """Return the key of the record of a transaction name."""
    return TRANSACTION + name.encode()


def step_mark_key(log: int, name: str) -> bytes:
    """Return the key of a transaction name's mark in a topic. *log* is the number of the topic's first log."""
    return log_key(log, STEP_MARK) + name.encode()


def step_mark_value(number: int, note: str) -> bytes:
    """Encode the mark of a transaction name."""
    return _COUNT.pack(number) + note.encode()


def read_step_mark(value: bytes) -> tuple[int, str]:
    """Decode the mark of a transaction name: its number and its note."""
    return int(_COUNT.unpack_from(value)[0]), value[_COUNT.size :].decode()


def topic_key(name: str) -> bytes:
    """Return the key of a topic."""
    return TOPIC + name.encode()


def json_value(value: dict[str, Any]) -> bytes:
    """Encode a small object as JSON."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def read_json(value: bytes) -> dict[str, Any]:
    """Decode a small object from JSON."""
    decoded: dict[str, Any] = json.loads(value)
    return decoded


def after_prefix(prefix: bytes) -> bytes:
    """Return the smallest key after all that start with *prefix*."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
