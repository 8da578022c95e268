"""When a write is safe: one thread syncs for all writers, or at intervals, or the operating system does it alone.

Under ``always`` a write is done, and readers see it, when it is on disk. Writers do not sync themselves: RocksDB's
sync holds the interpreter's lock, so that many writers would wait for each other. One committer syncs the write-ahead
log for all that was written until then, while they prepare the next writes.

The other way, that the first of those who wait syncs for all, was tried: a sender that is alone gains a tenth, many
gain nothing, and Ctrl-C may strike the main thread just when it is to tell the others that their messages are safe.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from mqplug import Error, OutcomeUnknown, StorageFull
from mqplug.spi import Bell
from mqplug_rocksmq._engine.latency import LatencyRecorder
from mqplug_rocksmq._format.keys import CHANGES, read_count
from mqplug_rocksmq._settings import Sync

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.log_state import LogState
    from mqplug_rocksmq._engine.rocks import Pages
    from mqplug_rocksmq._engine.witness import Witness


class WriteCallback(Protocol):
    """Called once when a write is safe, with its offset, or with the error that says why it may not be."""

    def __call__(self, offset: int, error: Error | None, /) -> None: ...


class Durability:
    """Makes writes safe. ``written`` is called under the store's lock, directly after the write.

    ``waits`` says whether a write counts as safe only when it is on disk.
    """

    def __init__(self, pages: Pages, witness: Witness, lock: threading.Lock, mode: Sync, interval: float) -> None:
        self._pages = pages
        self.changes = read_count(pages.get(CHANGES))
        self._witness = witness
        self._lock = lock
        self.waits = mode == "always"
        self._interval = 0.0 if self.waits else interval
        self.commits = LatencyRecorder()
        self._unsafe_since: float | None = None
        self._grown: dict[LogState, int] = {}
        self._waiting: list[tuple[WriteCallback, int]] = []
        self.syncing = threading.Lock()  # held while somebody syncs, or nobody may
        self._dirty = Bell()
        self._stopping = threading.Event()
        self.failure: Error | None = None
        self.full: StorageFull | None = None
        self._thread = (
            None if mode == "os" else threading.Thread(target=self._run, name="mqplug-rocksmq-sync", daemon=True)
        )
        if self._thread:
            self._thread.start()

    def written(self, log: LogState | None, offset: int, done: WriteCallback | None) -> bool:
        """Note a write; say whether it counts as safe already, and *done* is left to the caller."""
        self.changes += 1
        if self._thread and self._unsafe_since is None:
            self._unsafe_since = time.perf_counter()
        if log:
            self.grew(log)
        if self.waits and done:
            self._waiting.append((done, offset))
        if self._thread:
            self._dirty.ring()
        return not self.waits

    def grew(self, log: LogState) -> None:
        """Let readers see the end of a log, which was just written, as soon as that counts as safe."""
        if self.waits:
            self._grown[log] = log.end
        else:
            log.show(log.end)

    def sync(self) -> None:
        """Put on disk what was written until now."""
        with self.syncing:
            with self._lock:
                grown, self._grown = self._grown, {}
                waiting, self._waiting = self._waiting, []
                since, self._unsafe_since = self._unsafe_since, None
                changes = self.changes
            error = self.failure
            try:
                self._sync_now(changes)
            except (Error, OSError) as cause:
                if self._put_off(cause, grown, waiting):
                    return
                error = self._fail(cause)
            if not error:
                for log, end in grown.items():
                    log.show(end)
            if since is not None:
                self.commits.add(time.perf_counter() - since)
        for done, offset in waiting:
            done(offset, error)

    def sync_locked(self) -> None:
        """The same for a caller that holds the store's lock; waiters are told by the committer as always."""
        try:
            self._sync_now(self.changes)
        except StorageFull as error:
            self.full = error
            raise OutcomeUnknown("the disk is full, and a write may not be safe", fix="Make room") from error
        except (Error, OSError) as error:
            raise self._fail(error) from error

    def sync_soon(self) -> None:
        """Have what was written put on disk."""
        self._dirty.ring()

    def _sync_now(self, changes: int) -> None:
        if self.failure:
            return
        self._pages.sync()
        self._witness.write(changes)

    def _fail(self, cause: Exception) -> Error:
        """After a sync that failed nobody knows what is on disk, and trying again may wrongly succeed."""
        self.failure = OutcomeUnknown("the disk failed while a write was made safe", fix="Open the store again")
        self.failure.__cause__ = cause
        return self.failure

    def _put_off(self, cause: Exception, grown: dict[LogState, int], waiting: list[tuple[WriteCallback, int]]) -> bool:
        """Where the disk is full, have those wait who wrote before: it is safe when there is room again.

        RocksDB says why only to whoever found out first, which may be a writer.
        """
        if self._stopping.is_set():
            return False
        with self._lock:
            if isinstance(cause, StorageFull):
                self.full = self.full or cause
            if not self.full:
                return False
            self._grown = grown | self._grown
            self._waiting = waiting + self._waiting
            return True

    def _run(self) -> None:
        while True:
            self._dirty.wait(None)
            if self._interval:
                self._stopping.wait(self._interval)
                self._dirty.wait(0)  # what was written meanwhile is part of this
            self.sync()
            if self._stopping.is_set():
                return

    def stop(self, timeout: float | None) -> bool:
        """Put on disk what is left, and end the committer; say whether that was done in time."""
        self._stopping.set()
        self._dirty.ring()
        if self._thread:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        self.sync()
        return True
