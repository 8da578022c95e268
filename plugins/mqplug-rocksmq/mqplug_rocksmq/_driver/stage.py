"""A stage: writes pages into table files beside the store, in any process, at no cost to the store's owner.

The owner only reserves one number for each file. ``finish`` returns everything else that an ingest needs.

Values and keys are held as they came, and encoded while their file is written, page by page. Encoding them earlier
would copy them into memory that the process does not have yet, which takes longer than everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from mqplug.spi import Run, Staged, StageDriver, TopicInfo
from mqplug_rocksmq._driver.producers import RunSend
from mqplug_rocksmq._format.page import PageBody, PageColumns, is_full, page_bodies
from mqplug_rocksmq._store.staging import StagedFile, StagedMark, StagedRun, StagingDirectory, staged

STAGED_FILE_BYTES: Final = 32 << 20  # of memory
_MARK_BYTES: Final = 1 << 20
_MESSAGE_OVERHEAD_BYTES: Final = 120  # of memory that a message takes besides its key and value

EncodePages = Callable[[], Iterable[PageBody]]


class RocksMQStage(StageDriver):
    """Collects messages by partition, and writes them as pages into files."""

    def __init__(self, store: str, path: Path, topic: TopicInfo, reserve: Callable[[float], int]) -> None:
        self._store = store
        self._topic = topic.name
        self._logs = [int(log.incarnation) for log in topic.logs]
        self._staging = StagingDirectory(path)
        self._reserve = reserve
        self._drafts: dict[int, _PageDraft] = {}
        self._pages: dict[int, deque[EncodePages]] = {}
        self._held = 0
        self._files: list[StagedFile] = []

    def write(self, run: Run, timeout: float) -> None:
        draft = self._drafts.setdefault(run.partition, _PageDraft())
        if is_full(len(run), run.size):
            self._encode(run.partition, draft)
            self._keep(run.partition, _pages_of(run))
        else:
            draft.add(RunSend(run).columns(), run.size)
        self._held += run.size + _MESSAGE_OVERHEAD_BYTES * len(run)
        if draft.full:
            self._encode(run.partition, draft)
        if self._held >= STAGED_FILE_BYTES:
            self._file(timeout)

    def _encode(self, partition: int, draft: _PageDraft) -> None:
        if draft.messages:
            self._keep(partition, _held(draft.take()))

    def _keep(self, partition: int, encode: EncodePages) -> None:
        self._pages.setdefault(partition, deque()).append(encode)

    def _file(self, timeout: float) -> None:
        """Write collected messages into a file."""
        for partition, draft in self._drafts.items():
            self._encode(partition, draft)
        segment = self._reserve(timeout)
        filled = sorted(self._pages.items())
        self._pages, self._held = {}, 0
        laid = _SegmentLayout(segment)
        size, checksum = self._staging.write(
            segment, chain.from_iterable(laid.run(self._logs[partition], pages) for partition, pages in filled)
        )
        self._files.append(StagedFile(segment, size, checksum, tuple(laid.runs)))

    def finish(self, timeout: float) -> Staged:
        if self._held:
            self._file(timeout)
        return staged(self._store, self._topic, self._files)

    def discard(self) -> None:
        self._drafts, self._pages = {}, {}
        self._staging.remove(file.segment for file in self._files)


def _pages_of(run: Run) -> EncodePages:
    if run.arrow(("value",)):  # holding a small part of a large array would hold the whole array
        return _encoded([body.copied() for body in RunSend(run).bodies()])
    return _held(RunSend(run).columns())


def _held(columns: PageColumns) -> EncodePages:
    """Return a function that encodes messages later. With headers, which take far more memory, encode them now."""
    return partial(page_bodies, columns) if columns.headers is None else _encoded(list(page_bodies(columns)))


def _encoded(bodies: Sequence[PageBody]) -> EncodePages:
    return lambda: bodies


class _PageDraft:
    """Messages for the next page."""

    def __init__(self) -> None:
        self._parts: list[PageColumns] = []
        self.messages = self._size = 0

    def add(self, columns: PageColumns, size: int) -> None:
        """Add messages of *size* bytes."""
        self._parts.append(columns)
        self.messages += len(columns.times)
        self._size += size

    @property
    def full(self) -> bool:
        """Whether the page is large enough."""
        return is_full(self.messages, self._size)

    def take(self) -> PageColumns:
        """Return all messages, and start a new page."""
        parts, self._parts, self.messages, self._size = self._parts, [], 0, 0
        if len(parts) == 1:
            return parts[0]
        times = list(chain.from_iterable(part.times for part in parts))
        return PageColumns(times, *(_joined(parts, column, empty) for column, empty in ((1, None), (2, None), (3, ()))))


def _joined(parts: Sequence[PageColumns], column: int, empty: Any) -> list[Any] | None:
    """Return a column of all parts. Some may not have it."""
    if all(part[column] is None for part in parts):
        return None
    return [item for part in parts for item in part[column] or repeat(empty, len(part.times))]


class _SegmentLayout:
    """Places pages in a segment, one after the other."""

    def __init__(self, segment: int) -> None:
        self._segment = segment
        self._end = 0
        self.runs: list[StagedRun] = []

    def run(self, log: int, held: deque[EncodePages]) -> Iterator[tuple[int, int, bytes]]:
        """Encode the pages of a log and yield them with their places. Encoded messages are released."""
        start, size, marks = self._end, 0, _Marks()
        while held:
            for body in held.popleft()():
                marks.add(self._end - start, body.newest, size)
                yield self._segment, self._end, body.seal(self._end)
                self._end += body.messages
                size += body.size
        self.runs.append(StagedRun(log, start, self._end - start, size, tuple(marks.found)))


class _Marks:
    """The future entries of the time index for the pages of a run."""

    def __init__(self) -> None:
        self.found: list[StagedMark] = []

    def add(self, at: int, newest: int, size: int) -> None:
        """Add an entry for a page that needs one: the first, a newer one, or one far after the last entry."""
        last = self.found[-1] if self.found else StagedMark(0, -1, 0)
        if newest > last.time or size - last.size >= _MARK_BYTES:
            self.found.append(StagedMark(at, max(newest, last.time), size))
