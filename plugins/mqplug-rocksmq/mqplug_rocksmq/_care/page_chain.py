"""The chain of a log's pages: which are sound, and which messages are missing between them.

The pages of ingested runs are resealed as pages of their log, as a repair stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mqplug import Corrupt
from mqplug_rocksmq._care.damage import Finding, SurveyReport, UnreadableKeys, read_around_damage
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.log_state import MARK_STEP_MS
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._format.keys import IngestedRun, LogRecord, TimeMark, page_key, read_page_key
from mqplug_rocksmq._format.page import Page, reseal
from mqplug_rocksmq._store.offset_leases import substitute_log_record


class PageChain:
    """Follows the pages of a log in order, and collects findings."""

    def __init__(
        self, topic: str, partition: int, record: LogRecord | None, marks: Mapping[int, TimeMark], *, doubtful: bool
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._record = record
        self._doubtful = doubtful  # whether messages may be lost that no record mentions
        self._index = _Index(marks)
        self.findings: list[Finding] = []
        self.pages = self.messages = 0
        self._low = self._end = None if record is None else record.low
        self._lost = 0

    def take(self, base: int, raw: bytes) -> bytes | None:
        """Return the page in the form in which to keep it, or None if it cannot be kept."""
        page = self._verified(base, raw)
        if page is None:
            return None
        if self._low is None or self._end is None:
            self._low = self._end = base
        if base + page.count <= self._low:  # trimmed, but not dropped yet
            return None
        if self.pages and base < self._end:
            self._complain(f"the page at {base} begins before {self._end}, where the previous page ends")
            return None
        kept = raw if self._follows(page, self._end) else reseal(raw, self._end)
        self._complain_all(self._index.take(base, page, len(raw)))
        self.pages += 1
        self.messages += base + page.count - max(base, self._low)
        self._end = base + page.count
        return kept

    def _verified(self, base: int, raw: bytes) -> Page | None:
        try:
            page = Page(raw)
            page.times()
        except Corrupt as error:
            self._complain(f"the page at {base} is damaged: {error.message}")
            return None
        return page

    def _follows(self, page: Page, end: int) -> bool:
        if page.before > end:
            self._lose(end, page.before)
            return False
        if page.before < end and self.pages:
            self._complain(f"a page follows {page.before}, but the previous page ends at {end}")
            return False
        return True

    def finish(self) -> None:
        """Compare the end of the chain with the log's record."""
        if self._record is None:
            self._complain("its record is missing")
        elif self._end is not None and self._end < self._record.end:
            self._lose(self._end, self._record.end)
        elif self._end != self._record.end:
            self._complain(f"it was recorded to end at {self._record.end}, but ends at {self._end}")

    @property
    def record(self) -> LogRecord:
        """The record for the remaining pages. Assigned offsets are never assigned again."""
        low, end, newest = self._low or 0, self._end or 0, self._index.newest
        known = self._record
        if known is None:
            return substitute_log_record(low, end, newest, self._index.size)
        messages = known.messages - self._lost + max(0, end - known.end)
        following = max(known.next, end, known.leased if self._doubtful else 0)
        return LogRecord(
            low, end, following, max(known.leased, following), max(known.newest, newest), known.size, messages
        )

    @property
    def marks(self) -> Iterator[TimeMark]:
        """The corrected entries of the time index."""
        return iter(self._index.kept)

    def _lose(self, start: int, stop: int) -> None:
        self._lost += stop - start
        self.findings.append(Finding("messages are missing", self._topic, self._partition, start, stop))

    def _complain(self, what: str) -> None:
        self.findings.append(Finding(what, self._topic, self._partition))

    def _complain_all(self, whats: Iterator[str]) -> None:
        for what in whats:
            self._complain(what)


class _Index:
    """The time index of one log, checked against its pages and completed."""

    def __init__(self, marks: Mapping[int, TimeMark]) -> None:
        self._known = marks
        self.kept: list[TimeMark] = []
        self.newest = 0
        self.size = 0

    def take(self, base: int, page: Page, size: int) -> Iterator[str]:
        """Take the next page, and yield findings."""
        if not self.kept:
            self._begin(base)
        self.newest = max(self.newest, *page.times())
        needed = not self.kept or self.newest >= self.kept[-1].time + MARK_STEP_MS
        mark = self._known.get(base)
        if mark is None and needed:
            yield f"the time index lacks the page at {base}"
            # The time at which it was stored is unknown: assume now, or retention would drop the page too early.
            self.kept.append(TimeMark(self.newest, base, self.size, clock.now_ms()))
        elif mark is not None:
            if mark.time < self.newest:
                yield f"the time index has {mark.time} for the page at {base}, which has {self.newest}"
            self.newest = max(self.newest, mark.time)
            self.kept.append(mark._replace(time=self.newest))
        self.size = max(self.size, self.kept[-1].size) + size

    def _begin(self, base: int) -> None:
        """Keep the entry before the first page: it bounds the times after it."""
        before = [mark for mark in self._known.values() if mark.base < base]
        if before:
            covering = max(before, key=lambda mark: mark.base)
            self.kept.append(covering)
            self.newest, self.size = covering.time, covering.size


def ingested_pages(pages: Pages, runs: Iterable[IngestedRun], report: SurveyReport) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of ingested runs with their offsets in the log, resealed for it."""
    for run in runs:
        start = page_key(run.segment, run.start)
        for each in read_around_damage(pages, "data", start, page_key(run.segment, run.start + run.messages)):
            if isinstance(each, UnreadableKeys):
                report.add(f"pages cannot be read: {each.error.message}")
            else:
                at = read_page_key(each[0])[1]
                yield run.base + at - run.start, _moved(each[1], run, at)


def _moved(raw: bytes, run: IngestedRun, at: int) -> bytes:
    try:
        before = Page(raw).before
    except Corrupt:
        return raw  # the survey reports the damage
    return reseal(raw, run.before if at == run.start else before + run.base - run.start)
