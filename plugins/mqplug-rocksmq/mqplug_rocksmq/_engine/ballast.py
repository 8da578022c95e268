"""The ballast: room on the disk that a store holds for itself, and gives up when the disk is full.

To drop messages RocksDB has to write: a little to note what is dropped, and what lies beside it anew. So a store holds
as much room as it takes itself, up to a bound. With that it can be opened, trimmed and read where nothing is left.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mqplug_rocksmq._engine.directory import BALLAST, PROBE
from mqplug_rocksmq._engine.store_files import create_own, open_own

LEAST_BYTES: Final = 256 << 10  # what opening an empty store takes, twice
_PIECE_BYTES: Final = 1 << 20


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
        return min(self._most, LEAST_BYTES + used + used // 16)

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


def held_by(store: Path) -> int:
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
    for at in range(start, stop, _PIECE_BYTES):
        os.pwrite(file, bytes(min(_PIECE_BYTES, stop - at)), at)
