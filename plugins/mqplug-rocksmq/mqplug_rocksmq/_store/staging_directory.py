"""The directory ``staging`` of a store: table files that writers in any process leave for the owner.

A file is named after its segment. The owner reserves the segment's number, and never reuses it. The file appears under
that name once it is complete and on disk. The owner removes files that were not ingested within a day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from mqplug import Corrupt, Error
from mqplug_rocksmq._engine.directory import STAGING
from mqplug_rocksmq._engine.errors import translated_errors
from mqplug_rocksmq._engine.rocks import write_table
from mqplug_rocksmq._engine.store_files import entries_of, refuse_links
from mqplug_rocksmq._store.staged import StagedFile

STAGED_KEPT_S: Final = 24 * 3600.0  # the first task of a long job may finish that long before the job
_UNFINISHED_KEPT_S: Final = 3600.0
_CHECKSUM_READ_BYTES: Final = 256 << 10


class StagingDirectory:
    """The directory of a store's staged files."""

    def __init__(self, store: Path) -> None:
        self.path = store / STAGING

    def file(self, segment: int) -> Path:
        """Return the path of a segment's file."""
        return self.path / f"{segment}.sst"

    def write(self, segment: int, pages: Iterable[tuple[int, int, bytes]]) -> tuple[int, int]:
        """Write the file of a segment atomically. Return its size and its checksum."""
        fresh = self.file(segment).with_suffix(".new")
        try:
            with translated_errors():
                self.path.mkdir(mode=0o700, exist_ok=True)
                refuse_links(self.path)
                write_table(fresh, pages)
                found = fresh.stat().st_size, checksum_of(fresh)
                fresh.rename(self.file(segment))
                self._sync()
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        return found

    def _sync(self) -> None:
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def verify(self, file: StagedFile) -> None:
        """Raise ``Corrupt`` unless a file exists unmodified."""
        path = self.file(file.segment)
        try:
            with translated_errors():
                same = path.stat().st_size == file.size and checksum_of(path) == file.checksum
        except Error as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise _unusable(path, "is gone: it was discarded, or ingested under another number") from None
        if not same:
            raise _unusable(path, "was modified after it was written")

    def remove(self, segments: Iterable[int]) -> None:
        """Remove the files of segments. Missing files are ignored."""
        for segment in segments:
            self.file(segment).unlink(missing_ok=True)

    def size(self) -> int:
        """Return the total bytes of the staged files."""
        return sum(status.st_size for _, status in self._entries())

    def sweep(self) -> None:
        """Remove files that were not ingested within a day, and unfinished ones."""
        now = time.time()
        for path, status in self._entries():
            kept = STAGED_KEPT_S if path.suffix == ".sst" else _UNFINISHED_KEPT_S
            if now - status.st_mtime > kept:
                path.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for entry in entries_of(self.path):
            try:
                yield Path(entry.path), entry.stat()
            except FileNotFoundError:
                """Another process has removed it."""


def _unusable(path: Path, why: str) -> Corrupt:
    return Corrupt(f"the staged file {path} {why}", fix="Stage the messages again", backend="rocksmq")


def checksum_of(path: Path) -> int:
    """Return the crc32c of a file."""
    found = 0
    piece = memoryview(bytearray(_CHECKSUM_READ_BYTES))  # one for all: reading into new memory takes twice as long
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(piece):
            found = crc32c(piece[:count], found)
    return found
