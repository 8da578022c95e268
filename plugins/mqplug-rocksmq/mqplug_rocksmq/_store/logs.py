"""A log: pages appended to it, runs ingested into it, and reading it in order, by time, or from the end.

A missing or damaged page is an error, never skipped. ``Page`` verifies the bytes of each page that is read, and
``read_log`` its place in the chain: every page names the offset at which the page before it ended.

Ingested runs are the parts of a log in other segments, which were staged as files and ingested whole. Most logs have
none. Runs are looked up on demand: a log that is written in batches for weeks has many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from mqplug import Corrupt
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.log_state import MARK_STEP_MS, LogState
from mqplug_rocksmq._engine.rocks import MAX_KEY_OFFSET, Changes, Pages, WantsMore
from mqplug_rocksmq._format.keys import (
    FREED,
    INGESTED_RUN,
    TIME,
    IngestedRun,
    TimeMark,
    ingested_run_key,
    log_key,
    log_of,
    mark_key,
    mark_value,
    range_value,
    read_ingested_run,
    read_mark,
)
from mqplug_rocksmq._format.page import Page, PageBody, end_before, message_count
from mqplug_rocksmq._format.slices import Slice, gather_single_pages

_MIN_WALK_BYTES: Final = 4 << 10  # of pages in the second read
_MAX_WALK_BYTES: Final = 1 << 20
_SCAN_VALUES: Final = 1000


def append_page(changes: Changes, log: LogState, body: PageBody) -> None:
    """Add a page to the changes, as the next one of its log. The caller then adds the log's record."""
    now, page = clock.now_ms(), body.seal(log.end)
    log.newest = max(log.newest, body.newest)
    if log.needs_mark(log.newest, now):
        log.marked_size, log.marked_at, log.marked_time = log.size, now, log.newest
        mark = TimeMark(log.newest, log.next, log.size, now)
        changes.put(mark_key(log.number, mark.time, mark.base), mark_value(mark))
    changes.put_page(log.number, log.next, page)
    log.next = log.end = log.next + body.messages
    log.size += len(page)
    log.messages += body.messages


class BelowRetained(Exception):
    """The requested offset is below *low*, the first retained one."""

    def __init__(self, low: int) -> None:
        super().__init__(low)
        self.low = low


def read_log(engine: Engine, log: LogState, offset: int, max_messages: int, max_bytes: int) -> list[Slice]:
    """Return visible messages from *offset* on: at least one if there is one.

    Raises ``BelowRetained`` if retention removed the message at *offset*, before or during the read.
    """
    visible = log.visible
    found: FoundPages = []
    befores: dict[int, int] = {}
    engine.check()
    if offset < visible:
        with engine.lock:
            engine.check()
            more = _read_limit(offset, max_messages, max_bytes)
            if log.has_ingested_runs:
                found, befores, log.ingested_run = read_with_runs(
                    engine.pages, log.number, offset, more, log.ingested_run
                )
            else:
                found = engine.pages.read(log.number, offset, more)
    # Checked after the read, because retention may have overtaken it.
    if offset < log.low:
        raise BelowRetained(log.low)
    return _slices(log, found, befores, offset, visible, max_messages)


def _read_limit(offset: int, messages: int, size: int) -> Callable[[int, bytes], bool]:
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
    log: LogState, found: FoundPages, befores: Mapping[int, int], offset: int, visible: int, room: int
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
    """Yield the messages from *offset* up to *end*, except those that retention removes on the way.

    The first read fetches one page, which is enough for most searches. Later reads fetch more and more.
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
    """Return the offset of the first retained message with this timestamp or a later one, else the high watermark."""
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


FoundPages = list[tuple[int, bytes]]
"""Pages with their offsets in the log."""


def logs_with_runs(pages: Pages) -> Iterator[int]:
    """Yield the numbers of the logs that have runs."""
    start = b""
    while found := pages.scan(INGESTED_RUN, start, 1):
        log = log_of(found[0][0])
        yield log
        start = ingested_run_key(log, MAX_KEY_OFFSET)


def ingested_runs(pages: Pages, log: int, stop: int = MAX_KEY_OFFSET) -> Iterator[IngestedRun]:
    """Yield the runs of a log that begin before *stop*, in order."""
    prefix = start = log_key(log, INGESTED_RUN)
    while found := pages.scan(prefix, start, _SCAN_VALUES):
        for key, value in found:
            if (run := read_ingested_run(key, value)).base >= stop:
                return
            yield run
        start = found[-1][0] + b"\0"


def last_ingested_run(pages: Pages, log: int, offset: int = MAX_KEY_OFFSET) -> IngestedRun | None:
    """Return the last run of a log that begins at *offset* or before it."""
    found = pages.scan_back(log_key(log, INGESTED_RUN), ingested_run_key(log, offset))
    return found and read_ingested_run(*found)


def _next_run(pages: Pages, log: int, offset: int) -> IngestedRun | None:
    found = pages.scan(log_key(log, INGESTED_RUN), ingested_run_key(log, offset), 1)
    return read_ingested_run(*found[0]) if found else None


def end_of_run(pages: Pages, run: IngestedRun) -> int:
    """Return the end of a run's last existing page, or 0."""
    walk = _PageGatherer(lambda *_: False)
    walk.run(pages, run, run.end - 1)
    return walk.end


def drop_runs(changes: Changes, pages: Pages, log: int, keep: int) -> None:
    """Remove the runs that end at *keep* or before. The space of their segments is freed in the background.

    Runs are removed whole: logs share a segment, and freeing a part of it would rewrite the rest.
    """
    for run in ingested_runs(pages, log, keep):
        if run.end <= keep:
            changes.drop_pages(run.segment, run.start, run.start + run.messages)
            changes.put(log_key(run.segment, FREED), range_value(0, MAX_KEY_OFFSET))
            changes.delete(ingested_run_key(log, run.base))


class FoundInRuns(NamedTuple):
    """The result of a read from a log with ingested runs."""

    found: FoundPages
    befores: dict[int, int]
    """For each page of a run, the end of the page before it in the log. The page itself has the end in its segment."""
    run: IngestedRun | None
    """The run in which the read ended, where the next read may begin."""


def read_with_runs(
    pages: Pages, log: int, offset: int, more: WantsMore | None = None, known: IngestedRun | None = None
) -> FoundInRuns:
    """Read like ``Pages.read``, but from a log with ingested runs. *known* saves a lookup if it contains *offset*."""
    walk = _PageGatherer(more or (lambda *_: False))
    run = known if known and known.base <= offset < known.end else last_ingested_run(pages, log, offset)
    if run and offset < run.end:
        walk.run(pages, run, offset)
    floor = run.end if run else 0
    while walk.wants_more:
        following = _next_run(pages, log, floor)
        stop = following.base if following else MAX_KEY_OFFSET
        if floor < stop:
            walk.stretch(pages, log, max(offset, floor), (floor, stop))
        if not following:
            break
        if walk.wants_more:
            walk.run(pages, following, following.base)
        run, floor = following, following.end
    return FoundInRuns(walk.found, walk.befores, run)


class _PageGatherer:
    """Gathers pages from several segments, until there are enough."""

    def __init__(self, more: WantsMore) -> None:
        self._more = more
        self.wants_more = True
        self.end = 0
        self.found: FoundPages = []
        self.befores: dict[int, int] = {}

    def run(self, pages: Pages, run: IngestedRun, offset: int) -> None:
        """Add the pages of a run."""
        known = len(self.found)
        self.stretch(pages, run.segment, offset, (run.base, run.end), run.base - run.start)
        for base, page in self.found[known:]:
            self.befores[base] = run.before if base == run.base else end_before(page) + run.base - run.start
            self.end = base + message_count(page)

    def stretch(self, pages: Pages, segment: int, offset: int, part: tuple[int, int], shift: int = 0) -> None:
        """Add the pages of a segment from *offset* on that begin in this *part* of the log.

        The offset 0 in the segment is the offset *shift* in the log.
        """
        floor, stop = part

        def more(at: int, page: bytes) -> bool:
            base = at + shift
            if not floor <= base < stop:
                return base < floor
            self.found.append((base, page))
            self.wants_more = self._more(base, page)
            return self.wants_more

        pages.read(segment, offset - shift, more)
