"""A stage: writes pages into table files beside the store, in any process, at no cost to the store's owner.

The owner only reserves one number for each file. ``finish`` returns everything else that an ingest needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

from mqplug.spi import Run, Staged, TopicInfo
from mqplug_rocksmq._driver.send_units import BatchSend
from mqplug_rocksmq._format.page import PageBody, PageColumns
from mqplug_rocksmq._format.paging import is_full, page_bodies
from mqplug_rocksmq._store.staged import StagedFile, StagedMark, StagedRun, staged
from mqplug_rocksmq._store.staging_directory import StagingDirectory

STAGED_FILE_BYTES: Final = 64 << 20
_MARK_BYTES: Final = 1 << 20
_MESSAGE_OVERHEAD_BYTES: Final = 50  # of memory that a message takes beside its key and value, at least


class RocksMQStage:
    """Collects messages by partition, and writes them as pages into files."""

    def __init__(self, store: str, path: Path, topic: TopicInfo, reserve: Callable[[float], int]) -> None:
        self._store = store
        self._topic = topic.name
        self._logs = [int(log.incarnation) for log in topic.logs]
        self._staging = StagingDirectory(path)
        self._reserve = reserve
        self._drafts: dict[int, _PageDraft] = {}
        self._pages: dict[int, _PartitionPages] = {}
        self._held = 0
        self._files: list[StagedFile] = []

    def write(self, run: Run, timeout: float) -> None:
        draft = self._drafts.setdefault(run.partition, _PageDraft())
        self._held += run.size + _MESSAGE_OVERHEAD_BYTES * len(run)
        if is_full(len(run), run.size):
            self._encode(run.partition, draft)
            self._keep(run.partition, BatchSend(run).bodies())
        else:
            draft.add(BatchSend(run).columns(), run.size)
        if draft.full:
            self._encode(run.partition, draft)
        if self._held >= STAGED_FILE_BYTES:
            self._file(timeout)

    def _encode(self, partition: int, draft: _PageDraft) -> None:
        if draft.messages:
            self._keep(partition, page_bodies(draft.take()))

    def _keep(self, partition: int, bodies: Sequence[PageBody]) -> None:
        self._pages.setdefault(partition, _PartitionPages()).add(bodies)

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


class _PartitionPages:
    """The pages of one partition for the next file."""

    def __init__(self) -> None:
        self.bodies: list[PageBody] = []
        self.marks: list[StagedMark] = []
        self.messages = self.size = 0
        self._newest = 0

    def add(self, bodies: Sequence[PageBody]) -> None:
        for body in bodies:
            marked = self.marks[-1].size if self.marks else -_MARK_BYTES
            if body.newest > self._newest or self.size - marked >= _MARK_BYTES:
                self._newest = max(self._newest, body.newest)
                self.marks.append(StagedMark(self.messages, self._newest, self.size))
            self.bodies.append(body)
            self.messages += body.messages
            self.size += body.size


class _SegmentLayout:
    """Places pages one after the other in a segment."""

    def __init__(self, segment: int) -> None:
        self._segment = segment
        self._end = 0
        self.runs: list[StagedRun] = []

    def run(self, log: int, pages: _PartitionPages) -> Iterator[tuple[int, int, bytes]]:
        """Yield the pages of a log with their places."""
        self.runs.append(StagedRun(log, self._end, pages.messages, pages.size, tuple(pages.marks)))
        for body in pages.bodies:
            yield self._segment, self._end, body.seal(self._end)
            self._end += body.messages
