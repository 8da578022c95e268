"""Disk space of a store: whether it can accept sends or be opened, and the reserves that a full disk frees.

RocksDB must write in order to drop messages: it records the drop and rewrites neighbouring data. So a store reserves
as much disk space as it uses itself, up to a bound: its ballast. It also reserves inodes, for the files that RocksDB
creates. With both a store can be opened, trimmed and read on a full disk.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import StorageFull
from mqplug_rocksmq._engine.directory import BALLAST, DATABASE, INODES, PROBE
from mqplug_rocksmq._engine.errors import disk_full
from mqplug_rocksmq._engine.store_files import create_own, entries_of, open_own

RESERVED_INODES: Final = 16  # an opening takes ten
SCARCE_INODES: Final = 4  # left free for small changes, if the reserve was needed
MIN_BALLAST_BYTES: Final = 256 << 10  # twice what opening an empty store takes
_ALLOCATE_BYTES: Final = 1 << 20
_RECHECK_S: Final = 0.1  # between two checks of a full disk
_RESUME_FREE_BYTES: Final = 8 << 20  # free space beside the ballast before a full store accepts sends again
_RESUME_DISK_PART: Final = 16  # on a small disk, this fraction of it is enough
_SMALL_WRITES_BYTES: Final = 1 << 20  # left free for positions, trims and other small writes
_UNKNOWN_BYTES: Final = 1 << 62, 1 << 62  # for file systems that do not report their size


class DiskSpace:
    """The disk space of one store, used only by its owner. Callers hold the engine's lock.

    ``short``: the store needed its ballast to continue. It accepts no sends until there is space for both.
    """

    def __init__(self, store: Path, most: int) -> None:
        self._store = store
        self._ballast = Ballast(store, most)
        self._inodes = InodeReserve(store, RESERVED_INODES if most else 0)
        self._used = database_bytes(store)
        self._looked = -_RECHECK_S
        self.short = False

    @property
    def held(self) -> int:
        """The size of the ballast in bytes."""
        return self._ballast.held

    def took(self, size: int) -> None:
        """Record that the store grew by *size* bytes."""
        self._used += size

    def expect(self) -> None:
        """Raise ``StorageFull`` unless there is space for sends beside a ballast of the right size."""
        if (self.short and not self.to_send()) or not self._covered():
            raise self.full()

    def _covered(self) -> bool:
        """Return whether the reserves have the right size, or could get it."""
        return self._ballast.cover(self._used) and self._inodes.cover()

    def to_send(self) -> bool:
        """Return whether sends can resume beside a full ballast. Checked every 0.1 s at most, and False in between."""
        if time.monotonic() - self._looked < _RECHECK_S:
            return False
        self._looked = time.monotonic()
        self._used = database_bytes(self._store)
        self._measure_reserves()
        self._ballast.fit(self._used)
        free, total = _disk(self._store)
        wanted = wal_bytes(self._store) + min(_RESUME_FREE_BYTES, total // _RESUME_DISK_PART)
        missing = max(0, self._ballast.wanted(self._used) - self._ballast.held)
        if free < missing + wanted or not self._covered():
            return False
        self.short = not self._ballast.room_for(wanted)
        return not self.short

    def to_open(self) -> bool:
        """Return whether there is space to open RocksDB. Release the ballast if that makes the space."""
        log = wal_bytes(self._store)
        wanted = log + log // 64 + MIN_BALLAST_BYTES // 2
        return self._ballast.room_for(wanted) or (self.give_up() and self._ballast.room_for(wanted))

    def give_up(self) -> bool:
        """Release the reserves for now. Return whether there were any."""
        self.short = True
        return bool(self._ballast.give_up() + self._inodes.give_up())

    def settle(self) -> None:
        """Restore a released ballast as far as space permits, with some space left for small writes; or shrink it."""
        self._used = database_bytes(self._store)
        self._ballast.fit(self._used)
        if self.short:
            self._take()

    def _take(self) -> None:
        self._ballast.take(self._used, _disk(self._store)[0] - _SMALL_WRITES_BYTES)
        self._inodes.take()

    def _measure_reserves(self) -> None:
        self._ballast.measure()
        self._inodes.measure()

    def tend(self) -> None:
        """Measure the store and fit the ballast to it, as far as space permits."""
        self._used = database_bytes(self._store)
        self._measure_reserves()
        self._ballast.fit(self._used)
        if not self._covered():
            self._take()

    def full(self) -> StorageFull:
        """Return the error for a full disk."""
        return _no_inodes("") if self._lacks_inodes() else disk_full()

    def gone(self) -> StorageFull:
        """Return the error for a full disk whose reserves are gone too, so that nothing can be trimmed."""
        if self._lacks_inodes():
            return _no_inodes(", and other programs have taken the inodes that the store had reserved")
        return StorageFull(
            "the disk of the store is full, and other programs have taken the space that the store had reserved",
            fix="Free the size of the write-ahead log plus a few MiB, then trim or delete topics",
        )

    def _lacks_inodes(self) -> bool:
        free = free_inodes(self._store)
        return free is not None and free <= SCARCE_INODES


def _no_inodes(more: str) -> StorageFull:
    return StorageFull(
        f"the file system of the store has no inodes left for new files{more}",
        fix="Remove files from it (df -i counts inodes), or trim or delete topics",
    )


def database_bytes(store: Path) -> int:
    """Return the bytes that the database of a store takes on disk."""
    return sum(found.st_blocks * 512 for _, found in _files(store))


def wal_bytes(store: Path) -> int:
    """Return the bytes of RocksDB's write-ahead log. Opening the database rewrites as much."""
    return sum(found.st_size for name, found in _files(store) if name.endswith(".log"))


def _disk(store: Path) -> tuple[int, int]:
    """Return the free and total bytes of the file system."""
    disk = os.statvfs(store)
    return (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize) if disk.f_blocks else _UNKNOWN_BYTES


def _files(store: Path) -> list[tuple[str, os.stat_result]]:
    found = []
    for entry in entries_of(store / DATABASE):
        with suppress(FileNotFoundError):  # RocksDB removes files concurrently
            found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


class Ballast:
    """The file ``ballast`` of a store, used only by its owner. Not thread-safe."""

    def __init__(self, store: Path, most: int) -> None:
        self._path = store / BALLAST
        self._probe = store / PROBE
        self._most = most
        self.held = 0
        self.measure()

    def measure(self) -> None:
        """Measure the file: it may have been removed, or copied as a sparse file."""
        try:
            file = open_own(self._path, os.O_RDONLY)
        except FileNotFoundError:
            self.held = 0
            return
        try:
            self.held = _held(file)
        finally:
            os.close(file)

    def wanted(self, used: int) -> int:
        """Return the size that suits a store of *used* bytes."""
        return min(self._most, MIN_BALLAST_BYTES + used + used // 16)

    def cover(self, used: int) -> bool:
        """Grow to the size that suits a store of *used* bytes. Return whether that succeeded."""
        wanted = self.wanted(used)
        if self.held >= wanted:
            return True
        return self._resize(min(self._most, wanted + wanted // 4)) or self._resize(wanted)

    def fit(self, used: int) -> None:
        """Shrink if the ballast is much larger than a store of *used* bytes needs."""
        wanted = self.wanted(used)
        if self.held > wanted + wanted // 2:
            self._resize(wanted)

    def take(self, used: int, free: int) -> None:
        """Grow towards the size that suits a store of *used* bytes, by *free* bytes at most."""
        self._resize(max(self.held, min(self.wanted(used), self.held + free)))

    def give_up(self) -> bool:
        """Free the ballast's space. Return whether there was any."""
        self.measure()
        held = self.held
        return self._resize(0) and held > 0

    def _resize(self, size: int) -> bool:
        file = open_own(self._path, os.O_RDWR | os.O_CREAT)
        before = _held(file)
        try:
            os.ftruncate(file, min(size, before))
            if size > before:
                _allocate(file, before, size)
        except OSError:
            os.ftruncate(file, before)
            return False
        finally:
            self.held = _held(file)
            os.close(file)
        return True

    def room_for(self, size: int) -> bool:
        """Return whether *size* more bytes can be written. This also detects quotas that nothing else reports."""
        try:
            file = create_own(self._probe)
            try:
                _allocate(file, 0, size)
            finally:
                os.close(file)
                self._probe.unlink(missing_ok=True)
        except OSError:
            return False
        return True


def ballast_bytes(store: Path) -> int:
    """Return the bytes that the ballast takes on disk. Works in any process, whether or not it owns the store."""
    try:
        return (store / BALLAST).lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _held(file: int) -> int:
    found = os.fstat(file)
    return min(found.st_size, found.st_blocks * 512)


def _allocate(file: int, start: int, stop: int) -> None:
    """Allocate real blocks for a range of a file: a sparse file reserves nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, stop - start)
        return
    for at in range(start, stop, _ALLOCATE_BYTES):
        os.pwrite(file, bytes(min(_ALLOCATE_BYTES, stop - at)), at)


def free_inodes(store: Path) -> int | None:
    """Return how many more files the file system can hold, or None if it has no limit."""
    disk = os.statvfs(store)
    return disk.f_favail if disk.f_files else None


class InodeReserve:
    """The directory ``inodes`` of a store, which holds empty files. Used only by its owner; not thread-safe."""

    def __init__(self, store: Path, most: int) -> None:
        self._store = store
        self._path = store / INODES
        self._most = most
        self.held = 0
        self.measure()

    def measure(self) -> None:
        """Count the files: some may have been removed."""
        self.held = len(entries_of(self._path))

    def cover(self) -> bool:
        """Complete the reserve. Return whether that succeeded."""
        return self.held >= self._most or self._grow(self._most)

    def take(self) -> None:
        """Restore as much of the reserve as leaves some inodes free."""
        free = free_inodes(self._store)
        self._grow(self._most if free is None else min(self._most, self.held + free - SCARCE_INODES))

    def give_up(self) -> bool:
        """Free the inodes. Return whether there were any."""
        files = entries_of(self._path)
        for file in files:
            Path(file.path).unlink(missing_ok=True)
        self.held = 0
        return bool(files)

    def _grow(self, most: int) -> bool:
        with suppress(OSError):
            self._path.mkdir(mode=0o700, exist_ok=True)
            for number in range(most):
                if not (self._path / str(number)).exists():
                    os.close(create_own(self._path / str(number)))
        self.measure()
        return self.held >= most
