"""Reading a log: pages in order, by time, or from the end. A missing or damaged page is an error, never skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mqplug import Corrupt
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.log_state import MARK_STEP_MS, LogState
from mqplug_rocksmq._format.keys import TIME, log_key, mark_key, read_mark
from mqplug_rocksmq._format.page import Page, message_count
from mqplug_rocksmq._format.slices import Slice, gather_single_pages
from mqplug_rocksmq._store import ingested_segments

_MIN_WALK_BYTES: Final = 4 << 10  # of pages in the second read
_MAX_WALK_BYTES: Final = 1 << 20


class BelowRetained(Exception):
    """The requested offset is below *low*, the first retained one."""

    def __init__(self, low: int) -> None:
        super().__init__(low)
        self.low = low


def read_log(engine: Engine, log: LogState, offset: int, max_messages: int, max_bytes: int) -> list[Slice]:
    """Return visible messages from *offset* on: at least one if there is one.

    Raises ``BelowRetained`` if retention removed the message at *offset*, or did so meanwhile.
    """
    visible = log.visible
    found: ingested_segments.FoundPages = []
    befores: dict[int, int] = {}
    engine.check()
    if offset < visible:
        with engine.lock:
            engine.check()
            appetite = _appetite(offset, max_messages, max_bytes)
            if log.has_ingested_runs:
                found, befores, log.ingested_run = ingested_segments.read_with_runs(
                    engine.pages, log.number, offset, appetite, log.ingested_run
                )
            else:
                found = engine.pages.read(log.number, offset, appetite)
    # Checked after the read, because retention may have overtaken it.
    if offset < log.low:
        raise BelowRetained(log.low)
    return _slices(log, found, befores, offset, visible, max_messages)


def _appetite(offset: int, messages: int, size: int) -> Callable[[int, bytes], bool]:
    """Return the callback that decides whether a read needs another page."""

    def more(base: int, page: bytes) -> bool:
        nonlocal messages, size
        end = base + message_count(page)
        if end > offset:
            messages -= end - base if base > offset else end - offset
            size -= len(page)
        return messages > 0 and size > 0

    return more


def _slices(
    log: LogState, found: ingested_segments.FoundPages, befores: Mapping[int, int], offset: int, visible: int, room: int
) -> list[Slice]:
    """Return the messages from *offset* up to *visible*. Each page is verified, runs of single pages together."""
    slices: list[Slice] = []
    at, end = 0, -1
    while at < len(found) and (base := found[at][0]) < visible:
        singles = None if befores else gather_single_pages(found, at)
        page = singles or _verified(log, base, found[at][1])
        at += singles.count if singles else 1
        before = befores.get(base, page.before)
        if before != end and (end >= 0 or before > offset):
            raise _hole(log, offset if end < 0 else end, base)
        end = base + page.count
        if end > offset:
            start = max(offset - base, 0)
            stop = min(page.count, start + room, visible - base)
            slices.append(Slice(base, page, start, stop))
            room -= stop - start
    if not slices and offset < visible and room > 0:
        raise _hole(log, offset, visible)
    return slices


def _verified(log: LogState, base: int, raw: bytes) -> Page:
    try:
        return Page(raw)
    except Corrupt as error:
        error.message = f"at offset {base} of partition {log.partition}: {error.message}"
        raise error.at(backend="rocksmq", topic=log.topic, operation="read") from error.__cause__


def _hole(log: LogState, start: int, stop: int) -> Corrupt:
    return Corrupt(
        f"the messages {start} to {stop - 1} of partition {log.partition} are missing from the store",
        fix="Restore the store from a backup",
        backend="rocksmq",
        topic=log.topic,
        operation="read",
    )


def walk(engine: Engine, log: LogState, offset: int, end: int) -> Iterator[Slice]:
    """Yield the messages from *offset* up to *end*, except those that retention removes meanwhile.

    The first read fetches one page, which most searches need; later ones fetch more and more.
    """
    size = 1
    while offset < end:
        try:
            slices = read_log(engine, log, offset, end - offset, size)
        except BelowRetained as trimmed:
            offset = trimmed.low
            continue
        yield from slices
        offset = slices[-1].end if slices else end
        size = min(max(2 * size, _MIN_WALK_BYTES), _MAX_WALK_BYTES)


def first_at(engine: Engine, log: LogState, time: int) -> int:
    """Return the offset of the first retained message with this timestamp or a later one, else the high."""
    high, low = log.visible, log.low
    with engine.lock:
        engine.check()
        prefix, key = log_key(log.number, TIME), mark_key(log.number, time, 0)
        found = [read_mark(*each) for each in engine.pages.scan(prefix, key, 1)]
        if (before := engine.pages.scan_back(prefix, key)) and read_mark(*before).time + MARK_STEP_MS > time:
            found = [read_mark(*before)]  # pages between the two entries may have the time too
    if not found:
        return high
    # A larger time among the trimmed messages may hide a later message: then all retained ones are searched.
    for part in walk(engine, log, max(found[0].base, low), high):
        for index, stamp in enumerate(part.page.times()[part.start : part.stop], part.base + part.start):
            if stamp >= time:
                return index
    return high


def nth_last(engine: Engine, log: LogState, count: int) -> int:
    """Return the offset of the *count*-th message from the end, or of the first."""
    low, high, dense = log.extent
    if dense:
        return max(low, high - count)
    runs = [(part.base + part.start, len(part)) for part in walk(engine, log, low, high)]
    while len(runs) > 1 and runs[-1][1] < count:
        count -= runs.pop()[1]
    return runs[-1][0] + max(0, runs[-1][1] - count) if runs else low


def first_and_last(engine: Engine, log: LogState) -> tuple[int, int] | None:
    """Return the offsets of the first and the last message, or None if there are no messages."""
    low, high = log.low, log.visible
    for part in walk(engine, log, low, high):
        return part.base + part.start, high - 1
    return None
