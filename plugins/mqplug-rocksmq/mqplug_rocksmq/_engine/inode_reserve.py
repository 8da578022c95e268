"""Inodes that a store reserves: RocksDB creates files to open, to trim and to free space, on a full disk too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug_rocksmq._engine.directory import INODES
from mqplug_rocksmq._engine.store_files import create_own, entries_of

RESERVED_INODES: Final = 16  # an opening takes ten
SCARCE_INODES: Final = 4  # left free for small changes, if the reserve was needed


def free_inodes(store: Path) -> int | None:
    """Return how many more files the file system takes, or None if it has no limit."""
    disk = os.statvfs(store)
    return disk.f_favail if disk.f_files else None


class InodeReserve:
    """The directory ``inodes`` of a store, which holds empty files. For its owner alone; not thread-safe."""

    def __init__(self, store: Path, most: int) -> None:
        self._store = store
        self._path = store / INODES
        self._most = most
        self.held = 0
        self.look()

    def look(self) -> None:
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
        self.look()
        return self.held >= most
