"""Whether the disk of a store has room: to send, to do without sending what makes room, and to open it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import StorageFull
from mqplug_rocksmq._engine.directory import BALLAST, DATABASE, PROBE
from mqplug_rocksmq._engine.errors import disk_full
from mqplug_rocksmq._engine.store_files import create_own, open_own

MIN_BALLAST_BYTES: Final = 256 << 10  # twice what opening an empty store takes
_ALLOCATE_BYTES: Final = 1 << 20
_RECHECK_S: Final = 0.1  # between two checks of a full disk
_RESUME_FREE_BYTES: Final = 8 << 20  # free space beside the ballast before a full store accepts sends again
_RESUME_DISK_PART: Final = 16  # on a small disk, this fraction of it is enough
_SMALL_WRITES_BYTES: Final = 1 << 20  # left free for positions, trims and other small writes
_UNKNOWN_BYTES: Final = 1 << 62, 1 << 62  # for file systems that do not report their size


class DiskSpace:
    """The room of one store. For its owner alone, and under the engine's lock.

    ``short``: the store could not go on without its ballast, and nothing is sent until there is room for both.
    """

    def __init__(self, store: Path, most: int) -> None:
        self._store = store
        self._ballast = Ballast(store, most)
        self._used = database_bytes(store)
        self._looked = -_RECHECK_S
        self.short = False

    @property
    def held(self) -> int:
        """The size of the ballast."""
        return self._ballast.held

    def took(self, size: int) -> None:
        """Note that the store takes so many bytes more."""
        self._used += size

    def expect(self) -> None:
        """Raise ``StorageFull`` unless there is room to send: the ballast comes first."""
        if (self.short and not self.to_send()) or not self._ballast.cover(self._used):
            raise disk_full()

    def to_send(self) -> bool:
        """Whether sending can go on, with the ballast as it should be; asked now and then."""
        if time.monotonic() - self._looked < _RECHECK_S:
            return False
        self._looked = time.monotonic()
        self._used = database_bytes(self._store)
        self._ballast.look()
        self._ballast.fit(self._used)
        free, total = _disk(self._store)
        wanted = wal_bytes(self._store) + min(_RESUME_FREE_BYTES, total // _RESUME_DISK_PART)
        missing = max(0, self._ballast.wanted(self._used) - self._ballast.held)
        if free < missing + wanted or not self._ballast.cover(self._used):
            return False
        self.short = not self._ballast.room_for(wanted)
        return not self.short

    def to_open(self) -> bool:
        """Whether RocksDB can be opened; gives up the ballast for that, where it must."""
        log = wal_bytes(self._store)
        wanted = log + log // 64 + MIN_BALLAST_BYTES // 2
        return self._ballast.room_for(wanted) or (self.give_up() and self._ballast.room_for(wanted))

    def give_up(self) -> bool:
        """Give up the ballast for a while; say whether there was any."""
        self.short = True
        return self._ballast.give_up()

    def settle(self) -> None:
        """Take back what can be had of a ballast that was given up, but for some room to go on with small things."""
        if self.short:
            self._used = database_bytes(self._store)
            self._ballast.take(self._used, _disk(self._store)[0] - _SMALL_WRITES_BYTES)

    def tend(self) -> None:
        """Look how much the store really takes, and hold as much, or what can be had of it."""
        self._used = database_bytes(self._store)
        self._ballast.look()
        self._ballast.fit(self._used)
        if not self._ballast.cover(self._used):
            self._ballast.take(self._used, _disk(self._store)[0] - _SMALL_WRITES_BYTES)


def ballast_gone() -> StorageFull:
    """Return what says that there is no room, not even for what would make some."""
    return StorageFull(
        "the disk of the store is full, and others have taken the room that the store kept to go on without them",
        fix="Free as much as the write-ahead log takes, and a few MiB; trimming and deleting work then",
    )


def database_bytes(store: Path) -> int:
    """Return what the database of a store takes on disk."""
    return sum(found.st_blocks * 512 for _, found in _files(store))


def wal_bytes(store: Path) -> int:
    """Return what RocksDB's write-ahead log takes: as much is written anew when it is opened."""
    return sum(found.st_size for name, found in _files(store) if name.endswith(".log"))


def _disk(store: Path) -> tuple[int, int]:
    """Return what the file system says is free, and how large it is."""
    disk = os.statvfs(store)
    return (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize) if disk.f_blocks else _UNKNOWN_BYTES


def _files(store: Path) -> list[tuple[str, os.stat_result]]:
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.scandir(store / DATABASE):
            with suppress(FileNotFoundError):  # RocksDB removes some while we look
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


class Ballast:
    """The file ``ballast`` of a store. For its owner alone, and not for several threads at once."""

    def __init__(self, store: Path, most: int) -> None:
        self._path = store / BALLAST
        self._probe = store / PROBE
        self._most = most
        self.held = 0
        self.look()

    def look(self) -> None:
        """See how much there is: somebody may have removed it, or copied it as a hole."""
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
        """Return how much is to be held for a store that takes so many bytes."""
        return min(self._most, MIN_BALLAST_BYTES + used + used // 16)

    def cover(self, used: int) -> bool:
        """Hold enough for a store that takes so many bytes; say whether it is enough."""
        wanted = self.wanted(used)
        if self.held >= wanted:
            return True
        return self._resize(min(self._most, wanted + wanted // 4)) or self._resize(wanted)

    def fit(self, used: int) -> None:
        """Hold not much more than what a store that takes so many bytes needs."""
        wanted = self.wanted(used)
        if self.held > wanted + wanted // 2:
            self._resize(wanted)

    def take(self, used: int, free: int) -> None:
        """Hold what a store that takes so many bytes needs, or as much of it as is free."""
        self._resize(max(self.held, min(self.wanted(used), self.held + free)))

    def give_up(self) -> bool:
        """Leave the room to the store; say whether there was any."""
        self.look()
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
        """Whether so many bytes can be written besides; quotas and limits, which tell nobody, count too."""
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
    """Return what the ballast of a store takes on disk, whoever owns it."""
    try:
        return (store / BALLAST).lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _held(file: int) -> int:
    found = os.fstat(file)
    return min(found.st_size, found.st_blocks * 512)


def _allocate(file: int, start: int, stop: int) -> None:
    """Have real blocks for a part of a file: a hole would be no room."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, stop - start)
        return
    for at in range(start, stop, _ALLOCATE_BYTES):
        os.pwrite(file, bytes(min(_ALLOCATE_BYTES, stop - at)), at)
