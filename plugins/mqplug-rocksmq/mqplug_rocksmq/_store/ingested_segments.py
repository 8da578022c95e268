"""Ingested runs: the parts of a log in other segments, which were staged as files and ingested whole.

Most logs have none, and never use this module. Runs are looked up on demand: a log that is written in batches for weeks
has many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqplug_rocksmq._engine.rocks import MAX_KEY_OFFSET, Changes, Pages, WantsMore
from mqplug_rocksmq._format.keys import (
    FREED,
    INGESTED_RUN,
    IngestedRun,
    ingested_run_key,
    log_key,
    log_of,
    range_value,
    read_ingested_run,
)
from mqplug_rocksmq._format.page import end_before, message_count

_SCAN_VALUES: Final = 1000

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
    """Return the end of the last page that is present of a run, or 0."""
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
    """For each page of a run, the end of the page before it in the log. The page itself has that of its segment."""
    run: IngestedRun | None
    """The run in which the read ended: the next one may begin there."""


def read_with_runs(
    pages: Pages, log: int, offset: int, more: WantsMore | None = None, known: IngestedRun | None = None
) -> FoundInRuns:
    """Do what ``Pages.read`` does for a log with ingested runs. *known* saves a lookup if it contains *offset*."""
    walk = _PageGatherer(more or (lambda *_: False))
    run = known if known and known.base <= offset < known.end else last_ingested_run(pages, log, offset)
    if run and offset < run.end:
        walk.run(pages, run, offset)
    floor = run.end if run else 0
    while walk.hungry:
        following = _next_run(pages, log, floor)
        stop = following.base if following else MAX_KEY_OFFSET
        if floor < stop:
            walk.stretch(pages, log, max(offset, floor), (floor, stop))
        if not following:
            break
        if walk.hungry:
            walk.run(pages, following, following.base)
        run, floor = following, following.end
    return FoundInRuns(walk.found, walk.befores, run)


class _PageGatherer:
    """Gathers pages from several segments, until there are enough."""

    def __init__(self, more: WantsMore) -> None:
        self._more = more
        self.hungry = True
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
        """Add the pages of a segment from *offset* on, as far as they begin in this *part* of the log.

        The offset 0 in the segment is the offset *shift* in the log.
        """
        floor, stop = part

        def more(at: int, page: bytes) -> bool:
            base = at + shift
            if not floor <= base < stop:
                return base < floor
            self.found.append((base, page))
            self.hungry = self._more(base, page)
            return self.hungry

        pages.read(segment, offset - shift, more)
