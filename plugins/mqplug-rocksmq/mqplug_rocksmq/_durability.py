"""When a write is safe: one thread syncs for all writers, or at intervals, or the operating system does it alone.

Under ``always`` a write is done, and readers see it, when it is on disk. Writers do not sync themselves: RocksDB's
sync holds the interpreter's lock, so that many writers would wait for each other. One committer syncs the write-ahead
log for all that was written until then, while they prepare the next writes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Literal, Protocol

from mqplug import Error, OutcomeUnknown
from mqplug_rocksmq._layout import CHANGES, read_count

if TYPE_CHECKING:
    from mqplug_rocksmq._log import LogState
    from mqplug_rocksmq._pages import Pages
    from mqplug_rocksmq._witness import Witness

Sync = Literal["always", "interval", "os"]
MODES: Final = ("always", "interval", "os")


class Done(Protocol):
    """Called once when a write is safe, with its offset, or with the error that says why it may not be."""

    def __call__(self, offset: int, error: Error | None, /) -> None: ...


class Durability:
    """Makes writes safe. ``written`` is called under the store's lock, directly after the write."""

    def __init__(self, pages: Pages, witness: Witness, lock: threading.Lock, mode: Sync, interval: float) -> None:
        self._pages = pages
        self.changes = read_count(pages.get(CHANGES))
        self._witness = witness
        self._lock = lock
        self._waits = mode == "always"
        self._interval = 0.0 if self._waits else interval
        self._grown: dict[LogState, int] = {}
        self._waiting: list[tuple[Done, int]] = []
        self._syncing = threading.Lock()
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self.failure: Error | None = None
        self._thread = (
            None if mode == "os" else threading.Thread(target=self._run, name="mqplug-rocksmq-sync", daemon=True)
        )
        if self._thread:
            self._thread.start()

    def written(self, log: LogState | None, offset: int, done: Done | None) -> bool:
        """Note a write; say whether it counts as safe already, and *done* is left to the caller."""
        self.changes += 1
        if self._waits and log:
            self._grown[log] = log.end
        elif log:
            log.show(log.end)
        if self._waits and done:
            self._waiting.append((done, offset))
        if self._thread:
            self._dirty.set()
        return not self._waits

    def sync(self) -> None:
        """Put on disk what was written until now."""
        with self._syncing:
            with self._lock:
                grown, self._grown = self._grown, {}
                waiting, self._waiting = self._waiting, []
                changes = self.changes
            error = self.failure or self._try_sync(changes)
            if not error:
                for log, end in grown.items():
                    log.show(end)
        for done, offset in waiting:
            done(offset, error)

    def sync_locked(self) -> None:
        """The same for a caller that holds the store's lock; waiters are told by the committer as always."""
        changes = self.changes
        self.failure = self.failure or self._try_sync(changes)
        if self.failure:
            raise self.failure

    def _try_sync(self, changes: int) -> Error | None:
        try:
            self._pages.sync()
            self._witness.write(changes)
        except (Error, OSError) as error:
            # After a sync that failed nobody knows what is on disk, and trying again may wrongly succeed.
            self.failure = OutcomeUnknown("the disk failed while a write was made safe", fix="Open the store again")
            self.failure.__cause__ = error
            return self.failure
        return None

    def _run(self) -> None:
        while True:
            self._dirty.wait()
            self._stopping.wait(self._interval)
            self._dirty.clear()
            self.sync()
            if self._stopping.is_set():
                return

    def stop(self, timeout: float | None) -> bool:
        """Put on disk what is left, and end the committer; say whether that was done in time."""
        self._stopping.set()
        self._dirty.set()
        if self._thread:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        self.sync()
        return True
