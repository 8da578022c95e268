"""The engine: one open RocksDB with its lock, witness and durability. It applies changes and makes them safe."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from mqplug import Closed, Corrupt, Error, ForkedClient, OutcomeUnknown, StorageFull, Timeout
from mqplug.spi import Bell, Deadline
from mqplug_rocksmq._engine.clock import LatencyRecorder
from mqplug_rocksmq._engine.directory import DATABASE, WITNESS
from mqplug_rocksmq._engine.disk_space import DiskSpace, wal_bytes
from mqplug_rocksmq._engine.durability import Durability, WriteCallback, stored_changes
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._engine.rocks import Changes, Pages
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._engine.witness import Witness
from mqplug_rocksmq._format.keys import CHANGES, count_value
from mqplug_rocksmq._settings import Sync

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.log_state import LogState

T = TypeVar("T")
_REOPEN_FIX: Final = "Fix the disk, then open the store again"
_MAX_BUSY_S: Final = 10.0  # how long a change waits for a sync or compaction before RocksDB is reopened
_BUSY_POLL_S: Final = 0.005
_STOPPED_POLL_S: Final = 0.01


class _Busy(StorageFull):
    """The disk is full, and RocksDB cannot be reopened during a sync or compaction."""


class WriteReceipt:
    """The outcome of one write, which ``wait`` waits for."""

    __slots__ = ("_safe", "error", "offset")

    def __init__(self) -> None:
        self._safe = Bell()
        self.offset = 0
        self.error: Error | None = None

    def __call__(self, offset: int, error: Error | None, /) -> None:
        self.offset, self.error = offset, error
        self._safe.ring()

    def wait(self, timeout: float | None) -> int:
        """Wait until the write is safe, and return its offset. Raise the error that left it unsafe, or ``Timeout``."""
        if not self._safe.wait(timeout):
            raise Timeout(f"the disk did not confirm a write within {timeout} s; it may be stored anyway")
        if self.error:
            raise self.error
        return self.offset


class Engine:
    """Owns RocksDB's objects of an open store. All but ``pages.sync`` and ``pages.compact`` runs under ``lock``."""

    def __init__(self, path: Path, sync: Sync, interval: float, tuning: Tuning) -> None:
        self.lock = threading.Lock()
        self.witness = Witness(path / WITNESS, cautious=sync == "always")
        recorded = self.witness.read()
        self.host_died = recorded is None or recorded.host_died
        try:
            self.disk_space = DiskSpace(path, tuning.ballast_bytes)
            self.pages = self._open_pages(path / DATABASE, tuning)
            self.pages.be_impatient()
        except BaseException:
            self.witness.close()
            raise
        self.writes = LatencyRecorder()
        self._path = path
        self._refusal: Error | None = None
        self._looked = 0.0
        self.maintaining = threading.Lock()  # held during a flush or a compaction, which needs no other lock
        self.reload_memory: Callable[[], None] = lambda: None
        self._closed = False
        try:
            self._known = recorded.changes if recorded else 0
            changes = self._compare(path)
            self.durability = Durability(self.pages, changes, self.witness, self.lock, sync, interval)
            self.disk_space.settle()
        except BaseException:
            self.pages.close()
            self.witness.close()
            raise

    def _open_pages(self, database: Path, tuning: Tuning) -> Pages:
        if not self.disk_space.to_open():
            raise self.disk_space.gone()
        try:
            return Pages(database, tuning)
        except StorageFull:
            if not self.disk_space.give_up():
                raise
            return Pages(database, tuning)

    def _compare(self, path: Path) -> int:
        """Return the number of changes in the database. Raise ``Corrupt`` if some that were on disk are gone."""
        found = stored_changes(self.pages)
        if found < self._known:
            raise Corrupt(
                f"{self._known - found} changes that were safely on disk are gone from the store {path}",
                fix=f"Restore a backup; to accept the loss instead, run mqplug rocksmq repair {path}",
            )
        return found

    def opened(self) -> None:
        """Record that the store is in use. This comes last, so that a crash during opening changes nothing."""
        if not self.host_died:  # otherwise skipping the leased offsets has recorded it
            self.witness.write(self._known)
        if not self.disk_space.short:
            self.disk_space.tend()

    def check(self) -> None:
        """Raise ``Closed`` or ``ForkedClient`` unless the engine can be used."""
        if self._refusal:
            raise self._refusal.with_traceback(None)
        if self.durability.failure:
            raise Closed("the store is closed because its disk failed", fix=_REOPEN_FIX) from self.durability.failure

    def changes(self, *, frees: bool = False) -> Changes:
        """Return an empty set of changes. Call it under the lock, before reading any state that the changes depend on.

        Raises ``StorageFull`` while the disk is full. With space again, the store resumes from its stored state.
        With *frees*, for changes that free space or are small but necessary, the space of the ballast may be used.
        """
        if self._refusal is not None or self.durability.failure is not None:
            self.check()
        if self.durability.full is not None:
            self._resume(frees=frees)
        elif not frees:
            self.disk_space.expect()
        return self.pages.changes()

    def _resume(self, *, frees: bool) -> None:
        """Reopen RocksDB, which refuses writes once the disk was full, if there is space for that."""
        if not self.disk_space.to_send():
            if not frees:
                raise self.disk_space.full()
            if not self.disk_space.to_open():
                raise self.disk_space.gone()
        if not self.durability.syncing.acquire(blocking=False):
            raise _Busy(self.disk_space.full().message)
        try:
            if not self.maintaining.acquire(blocking=False):
                raise _Busy(self.disk_space.full().message)
            try:
                self._reopen()
            finally:
                self.maintaining.release()
        finally:
            self.durability.syncing.release()
        self.durability.full = None
        self.disk_space.settle()
        self.reload_memory()
        self.durability.sync_soon()

    def _reopen(self) -> None:
        with suppress(Error):  # the disk's error is already known
            self.pages.close()
        try:
            self.pages.reopen()
        except Error as error:
            self._refusal = Closed(f"the store is closed: {error.message}", fix=_REOPEN_FIX)
            raise

    def _wait_until_usable(self, timeout: float | None) -> None:
        """If RocksDB must be reopened, wait until no sync or compaction prevents that."""
        deadline = Deadline(_MAX_BUSY_S if timeout is None else min(timeout, _MAX_BUSY_S))
        while self.durability.full is not None:
            try:
                with self.lock:
                    self.changes(frees=True)
            except _Busy:
                if deadline.expired:
                    raise self.disk_space.full() from None
                time.sleep(_BUSY_POLL_S)

    @contextmanager
    def compacting(self) -> Iterator[None]:
        """Hold the locks that a compaction needs. If the disk is full, it may use the space of the ballast."""
        self._wait_until_usable(None)
        with self.maintaining:
            with self.lock:
                self.check()
                stuck = self.pages.stuck
                lent = (self.disk_space.short or stuck) and self.disk_space.give_up()
            try:
                if stuck:
                    self._open_anew()
                yield
                if self.pages.stuck:
                    raise self.disk_space.full()
                if self.disk_space.short:
                    self.pages.flush()  # otherwise a few small values would keep the whole write-ahead log
            finally:
                if lent:
                    with self.lock:
                        self.disk_space.settle()

    def shorten_log(self, most: int) -> None:
        """Move the content of the write-ahead log into tables if it takes more than *most* bytes.

        RocksDB keeps the whole log as long as one small value, such as a position, is only in it.
        """
        if wal_bytes(self._path) > most:
            with self.compacting():
                self.pages.flush()

    def _open_anew(self) -> None:
        """Reopen RocksDB although it refused no write. The ballast is restored later, after RocksDB has compacted."""
        with self.durability.syncing, self.lock:
            self.check()
            if not self.disk_space.to_open():
                raise self.disk_space.gone()
            self._reopen()
        self.durability.sync_soon()

    def tend_room(self) -> None:
        """Resume if a full disk has space again, and fit the ballast to the store."""
        with self.lock, suppress(StorageFull):
            self.changes()
            self.disk_space.tend()

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that opened the store."""
        return isinstance(self._refusal, ForkedClient)

    def write(
        self, changes: Changes, log: LogState | None = None, offset: int = 0, done: WriteCallback | None = None
    ) -> bool:
        """Apply changes under the lock, with the record of a *log* that grew by them.

        Return whether they are already safe; if so, the caller must call *done*.
        """
        self._apply(changes, log)
        return self.durability.written(log, offset, done)

    def _apply(self, changes: Changes, log: LogState | None = None) -> None:
        # RocksDB's own sequence number may go back when the newest change leaves no trace in its files.
        count = self.durability.changes + 1
        if log:
            changes.put(log.key, log.value(count))
        else:
            changes.put(CHANGES, count_value(count))
        began = time.perf_counter()
        try:
            self.pages.write(changes)
        except Error as error:
            # Memory is now ahead of the database: reset it, or refuse all further use.
            if isinstance(error, WritesStopped):
                self.reload_memory()
                raise
            if isinstance(error, StorageFull):
                self.durability.full = error
                self.reload_memory()
                raise self.disk_space.full() from error
            self._refusal = Closed(f"the store is closed because a write failed: {error.message}", fix=_REOPEN_FIX)
            raise OutcomeUnknown(f"a write failed: {error.message}", fix=_REOPEN_FIX) from error
        self.writes.add(time.perf_counter() - began)

    def write_unawaited(self, changes: Changes) -> None:
        """Apply changes under the lock without waiting for a sync: the next one includes them."""
        self._apply(changes)
        self.durability.changes += 1

    def change(self, plan: Callable[[Changes], T], timeout: float | None) -> T:
        """Let *plan* fill in changes under the lock, apply them and wait until they are safe.

        They may use the space of the ballast: they are small, and a full store cannot resume without them. If they are
        the first to find the disk full, *plan* is called again.
        """
        receipt = WriteReceipt() if self.durability.waits else None
        try:
            result = self._change(plan, receipt, timeout)
        except StorageFull:
            result = self.retried(lambda: self._change_again(plan, receipt, timeout), timeout)
        if receipt:
            receipt.wait(timeout)
        return result

    def retried(self, write: Callable[[], T], timeout: float | None) -> T:
        """Call *write*. If RocksDB has stopped writes, call it again once they are accepted."""
        deadline = Deadline(timeout)
        while True:
            try:
                return write()
            except WritesStopped as error:
                if not self.await_writes(deadline):
                    raise Timeout(
                        f"RocksDB accepted no writes for {timeout:.3g} s, and nothing was stored", fix=error.fix
                    ) from error

    def await_writes(self, deadline: Deadline) -> bool:
        """Return True as soon as RocksDB accepts writes, or False if it does not in time."""
        while True:
            with self.lock:
                self.check()
                if self.pages.takes_writes():
                    return True
            if deadline.expired:
                return False
            time.sleep(_STOPPED_POLL_S)

    def _change_again(self, plan: Callable[[Changes], T], receipt: WriteReceipt | None, timeout: float | None) -> T:
        try:
            return self._change(plan, receipt, timeout)
        except WritesStopped:
            raise
        except StorageFull:
            return self._change(plan, receipt, timeout)

    def _change(self, plan: Callable[[Changes], T], receipt: WriteReceipt | None, timeout: float | None) -> T:
        if self.durability.full is not None:
            self._wait_until_usable(timeout)
        with self.lock:
            try:
                changes = self.changes(frees=True)
                result = plan(changes)
                self.write(changes, done=receipt)
            except BaseException as error:
                self.undo(error)
                raise
        return result

    @contextmanager
    def rollback(self) -> Iterator[None]:
        """Call ``undo`` for any error of the block."""
        try:
            yield
        except BaseException as error:
            self.undo(error)
            raise

    def undo(self, error: BaseException) -> None:
        """Reset memory to the stored state, under the lock, if Ctrl-C came between a change in memory and its write."""
        if not isinstance(error, Error):  # our own errors leave memory consistent
            self.reload_memory()

    def abandon(self) -> None:
        """Refuse all use in the child of a fork, where the database would accept writes and lose them."""
        self.lock = threading.Lock()
        self.pages.abandon()
        self._refusal = ForkedClient(
            "the store was opened before this process was forked", fix="Connect in the child process instead"
        )

    def close(self, timeout: float | None) -> None:
        """Make all writes safe, then close. Further calls do nothing."""
        with self.lock:
            if self._closed or self.forked:
                return
            self._closed = True
            usable = self._refusal is None and self.durability.full is None
            self._refusal = self._refusal or Closed("the store is closed", fix="Open it again")
        if not self.durability.stop(timeout):
            warnings.warn("a store was not closed because its disk does not respond", ResourceWarning, stacklevel=2)
            return
        with self.lock:
            if usable and not self.durability.failure:
                with suppress(Error):
                    self.pages.flush()  # saves the next opener a replay
                self.witness.write(self.durability.changes, clean=True)
            try:
                self.pages.close()
            except Error as error:
                # Writes in no table are in the write-ahead log. Other disk errors were reported when they occurred.
                if usable and not isinstance(error, StorageFull):
                    raise
            finally:
                self.witness.close()
                with suppress(OSError):
                    self.disk_space.settle()
