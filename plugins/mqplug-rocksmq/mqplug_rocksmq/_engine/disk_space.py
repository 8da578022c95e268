"""Whether the disk of a store has room: to send, to do without sending what makes room, and to open it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import StorageFull
from mqplug_rocksmq._engine.ballast import LEAST_BYTES, Ballast
from mqplug_rocksmq._engine.directory import DATABASE
from mqplug_rocksmq._engine.errors import full

_LOOK_S: Final = 0.1  # between looks for room on a disk that is full
_TO_SEND_BYTES: Final = 8 << 20  # that have to be free beside the ballast before sending goes on; less on a small disk
_SMALL_PART: Final = 16
_UNKNOWN: Final = 1 << 62, 1 << 62  # some file systems tell nothing
_TO_GO_ON_BYTES: Final = 1 << 20  # that are left free for positions, trims and the like


class Room:
    """The room of one store. For its owner alone, and under the engine's lock.

    ``short``: the store could not go on without its ballast, and nothing is sent until there is room for both.
    """

    def __init__(self, store: Path, most: int) -> None:
        self._store = store
        self._ballast = Ballast(store, most)
        self._used = taken(store)
        self._looked = -_LOOK_S
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
            raise full()

    def to_send(self) -> bool:
        """Whether sending can go on, with the ballast as it should be; asked now and then."""
        if time.monotonic() - self._looked < _LOOK_S:
            return False
        self._looked = time.monotonic()
        self._used = taken(self._store)
        self._ballast.look()
        self._ballast.fit(self._used)
        free, total = _disk(self._store)
        wanted = log_bytes(self._store) + min(_TO_SEND_BYTES, total // _SMALL_PART)
        missing = max(0, self._ballast.wanted(self._used) - self._ballast.held)
        if free < missing + wanted or not self._ballast.cover(self._used):
            return False
        self.short = not self._ballast.room_for(wanted)
        return not self.short

    def to_open(self) -> bool:
        """Whether RocksDB can be opened; gives up the ballast for that, where it must."""
        log = log_bytes(self._store)
        wanted = log + log // 64 + LEAST_BYTES // 2
        return self._ballast.room_for(wanted) or (self.give_up() and self._ballast.room_for(wanted))

    def give_up(self) -> bool:
        """Give up the ballast for a while; say whether there was any."""
        self.short = True
        return self._ballast.give_up()

    def settle(self) -> None:
        """Take back what can be had of a ballast that was given up, but for some room to go on with small things."""
        if self.short:
            self._used = taken(self._store)
            self._ballast.take(self._used, _disk(self._store)[0] - _TO_GO_ON_BYTES)

    def tend(self) -> None:
        """Look how much the store really takes, and hold as much, or what can be had of it."""
        self._used = taken(self._store)
        self._ballast.look()
        self._ballast.fit(self._used)
        if not self._ballast.cover(self._used):
            self._ballast.take(self._used, _disk(self._store)[0] - _TO_GO_ON_BYTES)


def used_up() -> StorageFull:
    """Return what says that there is no room, not even for what would make some."""
    return StorageFull(
        "the disk of the store is full, and others have taken the room that the store kept to go on without them",
        fix="Free as much as the write-ahead log takes, and a few MiB; trimming and deleting work then",
    )


def taken(store: Path) -> int:
    """Return what the database of a store takes on disk."""
    return sum(found.st_blocks * 512 for _, found in _files(store))


def log_bytes(store: Path) -> int:
    """Return what RocksDB's write-ahead log takes: as much is written anew when it is opened."""
    return sum(found.st_size for name, found in _files(store) if name.endswith(".log"))


def _disk(store: Path) -> tuple[int, int]:
    """Return what the file system says is free, and how large it is."""
    disk = os.statvfs(store)
    return (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize) if disk.f_blocks else _UNKNOWN


def _files(store: Path) -> list[tuple[str, os.stat_result]]:
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.scandir(store / DATABASE):
            with suppress(FileNotFoundError):  # RocksDB removes some while we look
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found
