"""Grafts: the parts of a log that lie in other segments, because they were staged as files and taken in whole.

Most logs have none, and never come here. What is stored about a graft is looked up when it is needed: a log that is
written by batches for weeks has many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqplug_rocksmq._engine.rocks import LAST, Changes, More, Pages
from mqplug_rocksmq._format.keys import FREED, GRAFT, Graft, graft_key, log_key, log_of, range_value, read_graft
from mqplug_rocksmq._format.page import end_before, message_count

_SOME: Final = 1000

Found = list[tuple[int, bytes]]
"""Pages with their offsets in the log."""


def grafted_logs(pages: Pages) -> Iterator[int]:
    """Yield the logs that have grafts."""
    start = b""
    while found := pages.scan(GRAFT, start, 1):
        log = log_of(found[0][0])
        yield log
        start = graft_key(log, LAST)


def grafts(pages: Pages, log: int, stop: int = LAST) -> Iterator[Graft]:
    """Yield the grafts of a log that begin before *stop*, in order."""
    prefix = start = log_key(log, GRAFT)
    while found := pages.scan(prefix, start, _SOME):
        for key, value in found:
            if (graft := read_graft(key, value)).base >= stop:
                return
            yield graft
        start = found[-1][0] + b"\0"


def last_graft(pages: Pages, log: int, offset: int = LAST) -> Graft | None:
    """Return the last graft of a log that begins at *offset* or before it."""
    found = pages.scan_back(log_key(log, GRAFT), graft_key(log, offset))
    return found and read_graft(*found)


def _next_graft(pages: Pages, log: int, offset: int) -> Graft | None:
    found = pages.scan(log_key(log, GRAFT), graft_key(log, offset), 1)
    return read_graft(*found[0]) if found else None


def end_of(pages: Pages, graft: Graft) -> int:
    """Return where the last page of a graft ends that is there; 0 where there is none."""
    walk = _Walk(lambda *_: False)
    walk.graft(pages, graft, graft.end - 1)
    return walk.end


def drop(changes: Changes, pages: Pages, log: int, keep: int) -> None:
    """Remove the grafts that end at *keep* or before; the room of their segments comes back in the background.

    A graft goes whole: logs share a segment, and to give back a part of it is to write the rest of it anew.
    """
    for graft in grafts(pages, log, keep):
        if graft.end <= keep:
            changes.drop_pages(graft.segment, graft.start, graft.start + graft.messages)
            changes.put(log_key(graft.segment, FREED), range_value(0, LAST))
            changes.delete(graft_key(log, graft.base))


class Read(NamedTuple):
    """What was read."""

    found: Found
    befores: dict[int, int]
    """For each page of a graft the end of the page before it; what the page says of that is about its own segment."""
    graft: Graft | None
    """The graft in which that ended: the next read may begin there."""


def read(pages: Pages, log: int, offset: int, more: More | None = None, known: Graft | None = None) -> Read:
    """Do what ``Pages.read`` does, for a log that has grafts. If *known* is where it begins, that is not looked up."""
    walk = _Walk(more or (lambda *_: False))
    graft = known if known and known.base <= offset < known.end else last_graft(pages, log, offset)
    if graft and offset < graft.end:
        walk.graft(pages, graft, offset)
    floor = graft.end if graft else 0
    while walk.hungry:
        following = _next_graft(pages, log, floor)
        stop = following.base if following else LAST
        if floor < stop:
            walk.stretch(pages, log, max(offset, floor), (floor, stop))
        if not following:
            break
        if walk.hungry:
            walk.graft(pages, following, following.base)
        graft, floor = following, following.end
    return Read(walk.found, walk.befores, graft)


class _Walk:
    """Gathers pages from one segment after the other, until there are enough."""

    def __init__(self, more: More) -> None:
        self._more = more
        self.hungry = True
        self.end = 0
        self.found: Found = []
        self.befores: dict[int, int] = {}

    def graft(self, pages: Pages, graft: Graft, offset: int) -> None:
        """Go on with the pages of a graft."""
        known = len(self.found)
        self.stretch(pages, graft.segment, offset, (graft.base, graft.end), graft.base - graft.start)
        for base, page in self.found[known:]:
            self.befores[base] = graft.before if base == graft.base else end_before(page) + graft.base - graft.start
            self.end = base + message_count(page)

    def stretch(self, pages: Pages, segment: int, offset: int, part: tuple[int, int], shift: int = 0) -> None:
        """Go on with the pages of a segment from *offset* on, as far as they begin in this *part* of the log.

        What lies at 0 in the segment has the offset *shift* in the log.
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
