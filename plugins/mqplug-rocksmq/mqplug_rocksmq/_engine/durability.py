"""When a write is safe: after one thread's sync for all writers, at intervals, or when the operating system writes.

In mode ``always`` a write completes, and readers see it, once it is on disk. Writers do not sync themselves: RocksDB's
sync holds the interpreter's lock, so writers would wait for each other. One committer thread syncs the write-ahead log
for all earlier writes, while the writers prepare the next ones.

The alternative, in which the first waiting writer syncs for all, was measured. A single sender gains a tenth, many gain
nothing, and Ctrl-C may interrupt the main thread just before it reports to the others that their messages are safe.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from mqplug import Error, OutcomeUnknown, StorageFull
from mqplug.spi import Bell
from mqplug_rocksmq._engine.clock import LatencyRecorder
from mqplug_rocksmq._format.keys import CHANGES, LOG, read_count, read_log_changes
from mqplug_rocksmq._settings import Sync

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.log_state import LogState
    from mqplug_rocksmq._engine.rocks import Pages
    from mqplug_rocksmq._engine.witness import Witness


class WriteCallback(Protocol):
    """A callback for one write, called once: with its offset and None, or with the error that leaves it unsafe."""

    def __call__(self, offset: int, error: Error | None, /) -> None: ...


def stored_changes(pages: Pages) -> int:
    """Return the number of changes in a database. Each change stores it, in the record of a log or by itself."""
    return max(read_count(pages.get(CHANGES)), *(read_log_changes(value) for _, value in pages.scan(LOG)), 0)


class Durability:
    """Makes the writes of one store safe. Call ``written`` under the store's lock, directly after each write.

    ``waits``: a write counts as safe only once it is on disk.
    """

    def __init__(
        self, pages: Pages, changes: int, witness: Witness, lock: threading.Lock, mode: Sync, interval: float
    ) -> None:
        self._pages = pages
        self.changes = changes
        self._witness = witness
        self._lock = lock
        self.waits = mode == "always"
        self._interval = 0.0 if self.waits else interval
        self.commits = LatencyRecorder()
        self._unsafe_since: float | None = None
        self._grown: dict[LogState, int] = {}
        self._waiting: list[tuple[WriteCallback, int]] = []
        self.syncing = threading.Lock()  # held during a sync, or to prevent one
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
        """Record a write. Return whether it is already safe; if so, the caller must call *done*."""
        self.changes += 1
        if self._unsafe_since is None and self._thread is not None:
            self._unsafe_since = time.perf_counter()
        if log is not None:
            self.grew(log)
        if self._thread is None:
            return True
        if self.waits and done:
            self._waiting.append((done, offset))
        self._dirty.ring()
        return not self.waits

    def grew(self, log: LogState) -> None:
        """Show readers the new end of a log as soon as the latest write counts as safe."""
        if self.waits:
            self._grown[log] = log.end
        else:
            log.show(log.end)

    def sync(self) -> None:
        """Sync all earlier writes to disk, and report to the callers that wait for them."""
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
        """Sync all earlier writes, under the store's lock. The committer reports to waiters."""
        try:
            self._sync_now(self.changes)
        except StorageFull as error:
            self.full = error
            raise OutcomeUnknown(
                "the disk is full, and a write may not be safe", fix="Free some space on the disk"
            ) from error
        except (Error, OSError) as error:
            raise self._fail(error) from error

    def sync_soon(self) -> None:
        """Wake the committer to sync all earlier writes."""
        self._dirty.ring()

    def _sync_now(self, changes: int) -> None:
        if self.failure:
            return
        self._pages.sync()
        self._witness.write(changes)

    def _fail(self, cause: Exception) -> Error:
        """Record a failed sync permanently: a retry might succeed although data is lost."""
        self.failure = OutcomeUnknown("the disk failed during a sync; writes may be lost", fix="Open the store again")
        self.failure.__cause__ = cause
        return self.failure

    def _put_off(self, cause: Exception, grown: dict[LogState, int], waiting: list[tuple[WriteCallback, int]]) -> bool:
        """Return whether a sync failed because the disk is full. If so, its callers wait until there is space again.

        RocksDB reports the full disk only once, and possibly to a writer.
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
                self._dirty.wait(0)  # this sync also covers the writes of that interval
            self.sync()
            if self._stopping.is_set():
                return

    def stop(self, timeout: float | None) -> bool:
        """Sync the remaining writes and end the committer. Return whether that finished in time."""
        self._stopping.set()
        self._dirty.ring()
        if self._thread:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        self.sync()
        return True
