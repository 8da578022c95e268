"""One log in memory: how far it reaches, what of it readers may see, and who waits for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mqplug_rocksmq._format.keys import IngestedRun, LogRecord

LEASE_OFFSETS = 1 << 20
_MARK_INTERVAL_BYTES = 1 << 20
MARK_INTERVAL_MS = 1000


class Extent(NamedTuple):
    """How far a log reaches: from the first offset that is retained to the one behind the last message."""

    low: int
    high: int
    dense: bool  # whether there is a message at every offset between


class LogState:
    """The state of one open log; changed under the store's lock only, read by anyone.

    ``next`` is the offset of the next message. It lies behind ``end`` only after the host died: then offsets that may
    have been given out for messages that were lost are given up, so that no id ever names two messages.
    """

    __slots__ = (
        "__weakref__",
        "_watchers",
        "deleted",
        "end",
        "has_ingested_runs",
        "ingested_run",
        "leased",
        "low",
        "marked_at",
        "marked_size",
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
        self.topic = topic
        self.partition = partition
        self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages = record
        self.visible = self.end
        self.marked_size = self.marked_at = 0
        self.deleted = False
        self.has_ingested_runs = False  # whether some of it lies in other segments
        self.ingested_run: IngestedRun | None = None  # the one that was read last
        self._watchers: tuple[Callable[[], None], ...] = ()

    @property
    def record(self) -> LogRecord:
        """What is to be stored about this log."""
        return LogRecord(self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages)

    def go_back(self, record: LogRecord) -> None:
        """Take over what is stored."""
        self.low, self.end, self.next, self.leased, self.newest, self.size, self.messages = record
        self.marked_size = self.marked_at = 0
        self.ingested_run = None
        self.deleted = False

    def needs_mark(self, newest: int, now: int) -> bool:
        """Whether the next page gets an entry in the time index."""
        return (
            newest > self.newest
            or self.size - self.marked_size >= _MARK_INTERVAL_BYTES
            or now - self.marked_at >= MARK_INTERVAL_MS
        )

    @property
    def extent(self) -> Extent:
        """How far readers can see."""
        return Extent(self.low, self.visible, self.messages == self.end)

    def show(self, end: int) -> None:
        """Let readers see the messages below *end*, and wake those who wait."""
        if end > self.visible:
            self.visible = end
            self.wake()

    def watch(self, callback: Callable[[], None]) -> None:
        """Have *callback* called, quickly and from any thread, when there is more to see or the log is deleted."""
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
