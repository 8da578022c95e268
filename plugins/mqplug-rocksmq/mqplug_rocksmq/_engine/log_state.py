"""The state of one log in memory: its offsets, the end that readers see, and the watchers of new messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mqplug_rocksmq._format.keys import LOG_RECORD, IngestedRun, LogRecord, log_key

_MARK_INTERVAL_BYTES = 1 << 20
MARK_INTERVAL_MS = 1000
MARK_STEP_MS = 10
_MARK_STEP_BYTES = 64 << 10


class Extent(NamedTuple):
    """The offsets of a log: from the first retained one to the one after the last message."""

    low: int
    high: int
    dense: bool  # whether every offset between has a message


class LogState:
    """The state of one open log. Written under the store's lock only, read by any thread.

    ``next`` is the offset of the next message. It is greater than ``end`` only after the host died: offsets that may
    have been assigned to lost messages are skipped, so that no id ever names two messages.
    """

    __slots__ = (
        "__weakref__",
        "_watchers",
        "deleted",
        "end",
        "has_ingested_runs",
        "ingested_run",
        "key",
        "leased",
        "low",
        "marked_at",
        "marked_size",
        "marked_time",
        "messages",
        "newest",
        "next",
        "number",
        "partition",
        "size",
        "topic",
        "visible",
    )  # fmt: skip

    def __init__(self, number: int, topic: str, partition: int, record: LogRecord) -> None:
        self.number = number
        self.key = log_key(number)
        self.topic = topic
        self.partition = partition
        self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages = record
        self.visible = self.end
        self.marked_size = self.marked_at = self.marked_time = 0
        self.deleted = False
        self.has_ingested_runs = False  # whether other segments hold some of its messages
        self.ingested_run: IngestedRun | None = None  # the last one that was read
        self._watchers: tuple[Callable[[], None], ...] = ()

    @property
    def record(self) -> LogRecord:
        """The record to store for this log."""
        return LogRecord(self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages)

    def value(self, changes: int) -> bytes:
        """Return the value to store for this log, with the number of the store's changes so far."""
        return LOG_RECORD.pack(
            self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages, changes
        )

    def go_back(self, record: LogRecord) -> None:
        """Reset the state to a stored record."""
        self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages = record
        self.marked_size = self.marked_at = self.marked_time = 0
        self.ingested_run = None
        self.deleted = False

    def needs_mark(self, newest: int, now: int) -> bool:
        """Return whether the next page, after which *newest* is the largest timestamp, needs a time index entry."""
        unmarked = self.size - self.marked_size
        return (
            newest >= self.marked_time + MARK_STEP_MS
            or (newest > self.marked_time and unmarked >= _MARK_STEP_BYTES)
            or unmarked >= _MARK_INTERVAL_BYTES
            or now - self.marked_at >= MARK_INTERVAL_MS
        )

    @property
    def extent(self) -> Extent:
        """The offsets that readers can see."""
        return Extent(self.low, self.visible, self.messages == self.end)

    def show(self, end: int) -> None:
        """Show readers the messages below *end*, and wake the watchers."""
        if end > self.visible:
            self.visible = end
            for callback in self._watchers:
                callback()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call *callback*, in any thread, when messages become visible or the log is deleted."""
        self._watchers += (callback,)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Undo one ``watch``."""
        watchers = list(self._watchers)
        watchers.remove(callback)
        self._watchers = tuple(watchers)

    def wake(self) -> None:
        """Call all watchers."""
        for callback in self._watchers:
            callback()
