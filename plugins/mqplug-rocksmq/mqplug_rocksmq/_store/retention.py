"""Retention: drops messages beyond the limits of age and size, and frees their disk space.

Age counts from when a message was stored, not from its timestamp: a restored archive is not old. Pages are dropped
whole. The time index, which has an entry every second and every megabyte, determines which.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby, takewhile
from math import inf
from typing import Final, NamedTuple

from mqplug import Closed, Error, StorageFull
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.log_state import MARK_INTERVAL_MS, LogState
from mqplug_rocksmq._engine.rocks import Changes, TableFile
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._format.keys import (
    FREED,
    TIME,
    TimeMark,
    log_key,
    log_of,
    log_value,
    mark_key,
    range_value,
    read_mark,
    read_range,
)
from mqplug_rocksmq._store.logs import drop_runs, read_with_runs
from mqplug_rocksmq._store.staging import StagingDirectory
from mqplug_rocksmq._store.topics import TopicRetention, TopicTable

MarksOf = Callable[[LogState], Iterator[TimeMark]]

_SMALL_TABLE_BYTES: Final = 1 << 20
_MIN_RUN_TABLES: Final = 16
_STOP_S: Final = 2.0
_MAX_STEPS_AHEAD: Final = 4  # of new messages before writers wait for old ones to be dropped
_MAX_WRITER_WAIT_S: Final = 10.0
_RETRY_S: Final = 0.5  # until space is freed again after a full disk prevented it; doubled each time
_MIN_MARGIN_BYTES: Final = 1 << 20
_MIN_LOG_BYTES: Final = 256 << 10  # a smaller write-ahead log is not worth a table
_log = logging.getLogger("mqplug.rocksmq")


class RetentionWorker:
    """A thread that trims logs and frees their disk space."""

    def __init__(
        self, engine: Engine, topics: TopicTable, staging: StagingDirectory, interval: float, tuning: Tuning
    ) -> None:
        self._engine = engine
        self._topics = topics
        self._staging = staging
        self._interval = interval
        self._budget, self._step = tuning.budget_bytes, tuning.step_bytes
        self._oversized = OversizedLogs()
        self._grown = 0
        self._max_log_bytes = tuning.memory // 16  # one write buffer: a smaller limit would split its table
        self._promised = False
        self._round_at = 0.0  # at once, for the work that the last opener left undone
        self._kept_to = threading.Condition()
        self._work = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-retention", daemon=True)
        self._thread.start()

    def trim(self, log: LogState, offset: int, timeout: float | None) -> None:
        """Drop all messages before *offset*."""
        with self._engine.lock:
            self._engine.check()
            if log.deleted or min(offset, log.visible) <= log.low:
                return
        self._engine.change(lambda changes: self._trim(changes, log, min(offset, log.visible)), timeout)
        self.wake()

    def free_soon(self) -> None:
        """Free the disk space of dropped messages, in the write-ahead log too, before the store closes."""
        self._promised = True
        self.wake()

    def _trim(self, changes: Changes, log: LogState, offset: int) -> None:
        if log.deleted or offset <= log.low:
            return
        keep = self._page_at(log, offset) if offset < log.end else offset
        log.low = offset
        changes.put(log_key(log.number), log_value(log.record))
        changes.drop_pages(log.number, 0, keep)
        changes.put(log_key(log.number, FREED), range_value(0, keep))
        if log.has_ingested_runs:
            drop_runs(changes, self._engine.pages, log.number, keep)
        # The mark at or before the first retained page is kept: it bounds the times after it.
        covering = deque(takewhile(lambda mark: mark.base <= keep, self._marks(log)), maxlen=1)
        for mark in covering:
            first, last = mark_key(log.number, 0, 0), mark_key(log.number, mark.time, mark.base)
            changes.delete_range(first, last)

    def _page_at(self, log: LogState, offset: int) -> int:
        """Return the first offset of the page that contains *offset*, or *offset* if there is none."""
        pages = self._engine.pages
        found = (
            read_with_runs(pages, log.number, offset).found if log.has_ingested_runs else pages.read(log.number, offset)
        )
        return min(found[0][0], offset) if found else offset

    def _marks(self, log: LogState) -> Iterator[TimeMark]:
        prefix = start = log_key(log.number, TIME)
        while found := self._engine.pages.scan(prefix, start, 1000):
            yield from (read_mark(key, value) for key, value in found)
            start = found[-1][0] + b"\0"

    def enforce(self, now: int) -> None:
        """Trim every log to its topic's retention, as of *now* (milliseconds since 1970)."""
        logs = self._topics.logs()
        self._oversized.forget(logs)
        for log in logs:
            self._enforce(log, now)
        if self._budget is not None:
            self._keep_to(self._budget)

    def _enforce(self, log: LogState, now: int) -> None:
        """Trim one log, unless it was deleted."""
        with self._engine.lock:
            self._engine.check()
            if log.deleted:
                return
            retention = self._topics.get(log.topic).retention
            cut = _cut(log, self._marks(log), retention, now)
        self._oversized.examined(log, cut.size, retention.size)
        self.trim(log, cut.offset, None)

    def _keep_to(self, budget: int) -> None:
        """Drop the oldest messages of all topics, until the store is one step below *budget*."""
        budget -= self._staging.size()
        with self._engine.lock:
            self._engine.check()
            logs = self._topics.logs()
            excess = sum(retained_bytes(log, self._marks(log)) for log in logs) - budget
            found = cuts_by_log(logs, self._marks, excess + self._step) if excess > 0 else {}
        for number, offset in found.items():
            if log := self._topics.find(number):
                self.trim(log, offset, None)

    def grew(self, size: int, *logs: LogState) -> None:
        """Record that *logs* grew by *size* bytes. Wake the thread if a limit is exceeded; if by far, wait for it."""
        if self._oversized.grew(logs):
            self.wake()
        if self._budget is None:
            return
        with self._kept_to:
            self._grown += size
            if self._grown >= self._step:
                self.wake()
            self._kept_to.wait_for(self._room, _MAX_WRITER_WAIT_S)

    def recheck(self, logs: Iterable[LogState]) -> None:
        """Check these logs now, because their retention was changed."""
        self._oversized.check(logs)
        self.free_soon()

    def _room(self) -> bool:
        return self._grown < _MAX_STEPS_AHEAD * self._step or self._ending.is_set()

    def wake(self) -> None:
        """Wake the thread, which frees the space of dropped messages."""
        self._work.set()

    def free(self) -> None:
        """Free the disk space of dropped messages."""
        promised, self._promised = self._promised, False
        try:
            self._free(_MIN_LOG_BYTES if promised else self._max_log_bytes)
        except Error:
            self._promised = promised
            raise

    def _free(self, most: int) -> None:
        with self._engine.lock:
            self._engine.check()
            freed = self._engine.pages.scan(FREED)
        refused: StorageFull | None = None
        for key, value in freed:
            try:
                with self._engine.compacting():
                    self._engine.pages.compact(log_of(key), *read_range(value))
                self._engine.change(partial(self._forget, key, value), None)
            except StorageFull as error:
                refused = error  # another topic may need less space
        if refused:
            raise refused
        if freed:
            self._engine.shorten_log(most)
            self._engine.tend_room()

    def _forget(self, key: bytes, value: bytes, changes: Changes) -> None:
        if self._engine.pages.get(key) == value:
            changes.delete(key)

    def _run(self) -> None:
        retry = _RETRY_S
        while not self._ending.is_set():
            self._work.clear()
            try:
                self._round()
                retry = _RETRY_S
            except Closed:
                return
            except StorageFull as error:
                _log.warning(
                    "the disk space of dropped messages could not be freed: %s; trying again in %g s", error, retry
                )
                self._work.wait(retry)
                retry = min(2 * retry, self._interval)
                continue
            except (Error, OSError):
                if self._ending.is_set():
                    return
                _log.exception("retention could not drop old messages; trying again in %g s", self._interval)
            self._work.wait(max(0.0, self._round_at - time.monotonic()))
        if self._promised:
            with suppress(Error):
                self._catch_up()

    def _round(self) -> None:
        """Check all logs if the interval has passed or much was written, else the oversized ones. Then free space."""
        with self._kept_to:
            grown = self._grown
        self._staging.sweep()
        if time.monotonic() >= self._round_at or (self._budget is not None and grown >= self._step):
            self._round_at = time.monotonic() + self._interval
            self.enforce(clock.now_ms())
            if not self._engine.disk_space.short:
                merge_small_tables(self._engine)
            self._engine.tend_room()
        self._catch_up()
        if self._engine.disk_space.short:
            self._engine.tend_room()
        with self._kept_to:
            self._grown -= grown
            self._kept_to.notify_all()

    def _catch_up(self) -> None:
        """Trim the oversized logs, and free space."""
        for log in self._oversized.take():
            self._enforce(log, clock.now_ms())
        self.free()

    def stop(self, timeout: float | None) -> None:
        """End the thread. A compaction that runs for more than 2 s is cancelled."""
        self._ending.set()
        with self._kept_to:
            self._kept_to.notify_all()
        self._work.set()
        self._thread.join(_STOP_S if timeout is None else min(_STOP_S, timeout / 2))
        if self._thread.is_alive():
            self._engine.pages.cancel()
            self._thread.join(timeout)


class OversizedLogs:
    """Logs that exceed their size limit by an eighth, or whose limits changed: retention checks them at once.

    Thread-safe. An append costs one lookup here. All other logs wait for the next round, which checks every log.
    """

    def __init__(self) -> None:
        self._too_large: dict[int, float] = {}  # the size at which to check each log; unknown logs are checked
        self._waiting: deque[LogState] = deque()

    def grew(self, logs: Iterable[LogState]) -> bool:
        """Return whether one of these logs, which were written to, must be checked."""
        found = False
        for log in logs:
            if log.size >= self._too_large.get(log.number, 0):
                self._too_large[log.number] = inf  # until it was checked
                self._waiting.append(log)
                found = True
        return found

    def check(self, logs: Iterable[LogState]) -> None:
        """Schedule a check of these logs, whatever their size."""
        self._waiting.extend(logs)

    def take(self) -> Iterator[LogState]:
        """Yield the logs to check."""
        while self._waiting:
            yield self._waiting.popleft()

    def examined(self, log: LogState, dropped: int, limit: int | None) -> None:
        """Record that a log was checked: *dropped* of its bytes are gone, and it may keep *limit* (None: unlimited)."""
        margin = inf if limit is None else limit + max(_MIN_MARGIN_BYTES, limit // 8)
        self._too_large[log.number] = dropped + margin

    def forget(self, logs: Iterable[LogState]) -> None:
        """Forget all logs but these."""
        numbers = {log.number for log in logs}
        for gone in [number for number in self._too_large if number not in numbers]:
            del self._too_large[gone]


class _Cut(NamedTuple):
    """The offset at which a log should begin, and the bytes ever stored before it."""

    offset: int
    size: int


def _cut(log: LogState, marks: Iterator[TimeMark], retention: TopicRetention, now: int) -> _Cut:
    """Return the cut before which no messages need to be kept."""
    oldest = -1 if retention.milliseconds is None else now - retention.milliseconds - MARK_INTERVAL_MS
    excess = -1 if retention.size is None else log.size - retention.size
    cut, aged, mark = _Cut(log.low, 0), True, None
    for mark in marks:  # messages between two marks were stored within a second after the first
        if not aged and mark.size > excess:
            return cut
        cut = _Cut(max(log.low, mark.base), mark.size)
        aged = aged and mark.stored <= oldest
    return _Cut(log.visible, log.size) if mark and aged else cut


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


def merge_small_tables(engine: Engine) -> None:
    """Merge each long run of small tables, while reads and writes continue."""
    with engine.lock:
        engine.check()
        tables = engine.pages.tables()
    for first, last in small_table_runs(tables):
        with engine.maintaining:
            engine.pages.merge(first, last)


def small_table_runs(tables: Iterable[TableFile]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first and last key of each long run of small tables. *tables* are in the order of their keys."""
    for small, run in groupby(tables, lambda table: table.size < _SMALL_TABLE_BYTES):
        found = list(run)
        if small and len(found) >= _MIN_RUN_TABLES:
            yield found[0].first, found[-1].last
