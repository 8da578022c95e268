"""The engine: one open RocksDB with its lock, its witness and its durability. Changes go in and become safe."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from mqplug import Closed, Corrupt, Error, ForkedClient, OutcomeUnknown, StorageFull, Timeout
from mqplug.spi import Bell
from mqplug_rocksmq._durability import Done, Durability, Sync
from mqplug_rocksmq._layout import CHANGES, count_value, read_count
from mqplug_rocksmq._meter import Meter
from mqplug_rocksmq._pages import Changes, Pages
from mqplug_rocksmq._site import DATABASE, PROBE, WITNESS
from mqplug_rocksmq._tuning import Tuning
from mqplug_rocksmq._witness import Witness

if TYPE_CHECKING:
    from mqplug_rocksmq._log import LogState

Result = TypeVar("Result")
_REOPEN: Final = "Mend the disk, then open the store again"
_LOOK: Final = 0.1  # seconds between looks for room on a disk that is full
_ROOM: Final = 8 << 20
_PIECE: Final = 1 << 20


class Receipt:
    """Waits for one write to become safe."""

    __slots__ = ("_safe", "error", "offset")

    def __init__(self) -> None:
        self._safe = Bell()
        self.offset = 0
        self.error: Error | None = None

    def __call__(self, offset: int, error: Error | None, /) -> None:
        self.offset, self.error = offset, error
        self._safe.ring()

    def wait(self, timeout: float | None) -> int:
        """Return the offset, or raise what made the write unsafe."""
        if not self._safe.wait(timeout):
            raise Timeout("the disk did not confirm a write in time; it may be stored all the same")
        if self.error:
            raise self.error
        return self.offset


class _InStep:
    """Takes memory back to what is stored, where Ctrl-C came between a change in memory and its write, or behind it."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        """Nothing is done yet."""

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and not issubclass(kind, Error):  # errors of ours were raised with that in mind
            self._engine.went_back()


class Engine:
    """Owns everything native of an open store. All but ``pages.sync`` and ``pages.compact`` happens under ``lock``."""

    def __init__(self, path: Path, sync: Sync, interval: float, tuning: Tuning) -> None:
        self.lock = threading.Lock()
        self.witness = Witness(path / WITNESS, cautious=sync == "always")
        testimony = self.witness.read()
        self.host_died = testimony is None or testimony.host_died
        try:
            self.pages = Pages(path / DATABASE, tuning)
        except BaseException:
            self.witness.close()
            raise
        self.writes = Meter()
        self._path = path
        self._refusal: Error | None = None
        self._looked = 0.0
        self.maintaining = threading.Lock()  # held while pages are flushed or compacted, which needs no other lock
        self.went_back: Callable[[], None] = lambda: None
        self.in_step = _InStep(self)  # for whoever changes something and writes it, within ``lock``
        self._closed = False
        try:
            self._known = testimony.changes if testimony else 0
            self._compare(path)
            self.durability = Durability(self.pages, self.witness, self.lock, sync, interval)
        except BaseException:
            self.pages.close()
            self.witness.close()
            raise

    def _compare(self, path: Path) -> None:
        found = read_count(self.pages.get(CHANGES))
        if found < self._known:
            raise Corrupt(
                f"{self._known - found} changes that were safely on disk are gone from the store {path}",
                fix=f"Restore a backup; to accept the loss instead, run mqplug rocksmq repair {path}",
            )

    def opened(self) -> None:
        """Note that the store is in use; only now, because a crash while it was being opened changes nothing."""
        if not self.host_died:  # else it is noted already: leases were given up, and synced
            self.witness.write(self._known)

    def check(self) -> None:
        """Raise unless the engine can be used."""
        if self._refusal:
            raise self._refusal.with_traceback(None)
        if self.durability.failure:
            raise Closed("the store is closed, because its disk failed", fix=_REOPEN) from self.durability.failure

    def changes(self) -> Changes:
        """Return an empty set of changes, under the lock. All that they depend on is to be looked up afterwards.

        Raises ``StorageFull`` while the disk is full; when there is room again, the store goes on from what it holds.
        """
        self.check()
        if full := self.durability.full:
            self._resume(full)
        return self.pages.changes()

    def _resume(self, full: StorageFull) -> None:
        if not (self._room() and self.durability.syncing.acquire(blocking=False)):
            raise full.with_traceback(None)
        try:
            if not self.maintaining.acquire(blocking=False):
                raise full.with_traceback(None)
            try:
                self._reopen()
            finally:
                self.maintaining.release()
        finally:
            self.durability.syncing.release()
        self.durability.full = None
        self.went_back()
        self.durability.sync_soon()

    def _reopen(self) -> None:
        with suppress(Error):  # what was wrong with the disk is known
            self.pages.close()
        try:
            self.pages.reopen()
        except Error as error:
            self._refusal = Closed(f"the store is closed: {error.message}", fix=_REOPEN)
            raise

    def _room(self) -> bool:
        """Whether a file can be written that is as large as what RocksDB is going to write; asked now and then."""
        if time.monotonic() - self._looked < _LOOK:
            return False
        self._looked = time.monotonic()
        wanted = sum(file.stat().st_size for file in (self._path / DATABASE).glob("*.log")) + _ROOM
        probe = self._path / PROBE
        try:
            with probe.open("wb") as file:
                for _ in range(0, wanted, _PIECE):
                    file.write(bytes(_PIECE))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
        return True

    @property
    def forked(self) -> bool:
        """Whether this is the child of a fork."""
        return isinstance(self._refusal, ForkedClient)

    def write(self, changes: Changes, log: LogState | None = None, offset: int = 0, done: Done | None = None) -> bool:
        """Apply changes, under the lock; say whether they count as safe already, and *done* is left to the caller."""
        self._apply(changes)
        return self.durability.written(log, offset, done)

    def _apply(self, changes: Changes) -> None:
        # RocksDB's own count would not do: it may fall back when the newest change leaves no trace in its files.
        changes.put(CHANGES, count_value(self.durability.changes + 1))
        began = time.perf_counter()
        try:
            self.pages.write(changes)
        except Error as error:
            # What is in memory is ahead of the database now: go back, or have nothing more built on it.
            if isinstance(error, StorageFull):
                self.durability.full = error
                self.went_back()
                raise
            self._refusal = Closed(f"the store is closed, because a write failed: {error.message}", fix=_REOPEN)
            raise OutcomeUnknown(f"a write failed: {error.message}", fix=_REOPEN) from error
        self.writes.add(time.perf_counter() - began)

    def jot(self, changes: Changes) -> None:
        """Apply changes, under the lock, that nobody waits for: the next sync takes them along."""
        self._apply(changes)
        self.durability.changes += 1

    def change(self, plan: Callable[[Changes], Result], timeout: float | None) -> Result:
        """Let *plan* fill in changes under the lock, apply them and wait until they are safe."""
        receipt = Receipt() if self.durability.waits else None
        with self.lock, self.in_step:
            changes = self.changes()
            result = plan(changes)
            self.write(changes, done=receipt)
        if receipt:
            receipt.wait(timeout)
        return result

    def abandon(self) -> None:
        """Refuse all use: this is the child of a fork, where the database would take writes and lose them."""
        self.lock = threading.Lock()
        self.pages.abandon()
        self._refusal = ForkedClient(
            "the store was opened before this process was forked", fix="Connect in the child process instead"
        )

    def close(self, timeout: float | None) -> None:
        """Make everything safe, then close; may be called again."""
        with self.lock:
            if self._closed or self.forked:
                return
            self._closed = True
            usable = self._refusal is None and self.durability.full is None
            self._refusal = self._refusal or Closed("the store is closed", fix="Open it again")
        if not self.durability.stop(timeout):
            warnings.warn("a store was not closed, because its disk does not answer", ResourceWarning, stacklevel=2)
            return
        with self.lock:
            if usable and not self.durability.failure:
                with suppress(Error):
                    self.pages.flush()  # only to spare the next opener a replay
                self.witness.write(self.durability.changes, clean=True)
            try:
                self.pages.close()
            except Error:
                if usable:  # else what is wrong with the disk was told when it was found
                    raise
            finally:
                self.witness.close()
