"""The directory ``staging`` of a store: table files that writers, in whatever process, leave there for the owner.

A file is named for its segment, whose number the owner gave out and never gives out again. It appears under that name
when it is complete and on disk. The owner removes what nobody took in for a day.
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
from mqplug_rocksmq._engine.store_files import refuse_links
from mqplug_rocksmq._store.staged import StagedFile

STAGED_KEPT_S: Final = 24 * 3600.0  # seconds: the first task of a long job may be done that long before the job is
_UNFINISHED_KEPT_S: Final = 3600.0
_CHECKSUM_READ_BYTES: Final = 1 << 20


class StagingDirectory:
    """The staged files of a store."""

    def __init__(self, store: Path) -> None:
        self.path = store / STAGING

    def file(self, segment: int) -> Path:
        """Return where the file of a segment is."""
        return self.path / f"{segment}.sst"

    def write(self, segment: int, pages: Iterable[tuple[int, int, bytes]]) -> tuple[int, int]:
        """Write the file of a segment, all at once; return its size and its checksum."""
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
        """Raise unless a file is there, as it was written."""
        path = self.file(file.segment)
        try:
            with translated_errors():
                same = path.stat().st_size == file.size and checksum_of(path) == file.checksum
        except Error as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise _unusable(path, "is gone: it was taken in already under another number, or discarded") from None
        if not same:
            raise _unusable(path, "was changed after it was written")

    def remove(self, segments: Iterable[int]) -> None:
        """Remove files; those that are gone already are passed over."""
        for segment in segments:
            self.file(segment).unlink(missing_ok=True)

    def size(self) -> int:
        """Return how many bytes wait here."""
        return sum(status.st_size for _, status in self._entries())

    def sweep(self) -> None:
        """Remove what nobody took in for a long time, and what was left unfinished."""
        now = time.time()
        for path, status in self._entries():
            patience = STAGED_KEPT_S if path.suffix == ".sst" else _UNFINISHED_KEPT_S
            if now - status.st_mtime > patience:
                path.unlink(missing_ok=True)

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            entries = list(os.scandir(self.path))
        except FileNotFoundError:
            return
        for entry in entries:
            try:
                yield Path(entry.path), entry.stat()
            except FileNotFoundError:
                """Somebody was faster."""


def _unusable(path: Path, why: str) -> Corrupt:
    return Corrupt(f"the staged file {path} {why}", fix="Stage the messages again", backend="rocksmq")


def checksum_of(path: Path) -> int:
    """Return the crc32c of a file."""
    found = 0
    with path.open("rb") as file:
        while piece := file.read(_CHECKSUM_READ_BYTES):
            found = crc32c(piece, found)
    return found
