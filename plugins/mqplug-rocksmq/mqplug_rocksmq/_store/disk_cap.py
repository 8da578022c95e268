"""The disk limit of a store: which oldest messages of all topics to drop when it is exceeded."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mqplug_rocksmq._engine.log_state import LogState
from mqplug_rocksmq._format.keys import TimeMark

MarksOf = Callable[[LogState], Iterator[TimeMark]]


class _MarkedPart(NamedTuple):
    """The messages of a log between two entries of its time index, ordered by when they were stored."""

    stored: int
    log: int
    size: int
    end: int


def retained_bytes(log: LogState, marks: Iterator[TimeMark]) -> int:
    """Return the bytes of messages that a log retains."""
    first = next(marks, None)
    return 0 if first is None or log.low >= log.visible else log.size - first.size


def cuts_by_log(logs: Iterable[LogState], marks: MarksOf, excess: int) -> dict[int, int]:
    """Return, by log, the offset before which to drop messages, so that *excess* bytes are freed."""
    found: dict[int, int] = {}
    for piece in heapq.merge(*(_marked_parts(log, marks(log)) for log in logs)):
        if excess <= 0:
            break
        excess -= piece.size
        found[piece.log] = piece.end
    return found


def _marked_parts(log: LogState, marks: Iterator[TimeMark]) -> Iterator[_MarkedPart]:
    if log.low >= log.visible:
        return
    before = next(marks, None)
    while before is not None:
        after = next(marks, None)
        size, end = (log.size, log.visible) if after is None else (after.size, after.base)
        yield _MarkedPart(before.stored, log.number, size - before.size, min(end, log.visible))
        before = after
