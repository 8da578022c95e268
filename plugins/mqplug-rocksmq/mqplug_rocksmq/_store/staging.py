"""Staged files: table files that writers in any process leave for the owner, and descriptions of their messages.

They are in the store's directory ``staging``. A file is named after its segment. The owner reserves the segment's
number, and never reuses it. The file appears under that name once it is complete and on disk. Its writer describes
its messages, so that the owner can ingest it without reading it. The owner removes files that were not ingested
within a day.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from mqplug import ConfigError, Corrupt, Error
from mqplug.spi import Staged
from mqplug_rocksmq._engine.directory import STAGING
from mqplug_rocksmq._engine.errors import translated_errors
from mqplug_rocksmq._engine.rocks import write_table
from mqplug_rocksmq._engine.store_files import entries_of, refuse_links
from mqplug_rocksmq._settings import BACKEND

STAGED_KEPT_S: Final = 24 * 3600.0  # the first task of a long job may finish that long before the job does
_UNFINISHED_KEPT_S: Final = 3600.0
_CHECKSUM_READ_BYTES: Final = 256 << 10


class StagedMark(NamedTuple):
    """A future entry of the time index, for the page that begins *at* offsets after the run's start."""

    at: int
    time: int  # the largest timestamp of the run so far, that page included
    size: int  # bytes of the run's pages before it


class StagedRun(NamedTuple):
    """The messages in a staged file for one log."""

    log: int
    start: int  # the offset of the first in the file's segment
    messages: int
    size: int  # bytes of all pages
    marks: tuple[StagedMark, ...]


class StagedFile(NamedTuple):
    """A staged table file. Its messages are consecutive in its own segment, from 0 on, log by log."""

    segment: int
    size: int
    checksum: int  # crc32c of its bytes
    runs: tuple[StagedRun, ...]

    @property
    def messages(self) -> int:
        """The number of messages in it."""
        return sum(run.messages for run in self.runs)


def staged(store: str, topic: str, files: Sequence[StagedFile]) -> Staged:
    """Return the public description of staged files."""
    messages, size = sum(file.messages for file in files), sum(file.size for file in files)
    return Staged(BACKEND, store, topic, messages, size, json.dumps(files_to_json(files), separators=(",", ":")))


def files_of(store: str, several: Iterable[Staged]) -> list[StagedFile]:
    """Return the files of staged batches. Raise ``ConfigError`` for a batch of another store."""
    found = []
    for each in several:
        if (each.backend, each.cluster) != (BACKEND, store):
            raise ConfigError(
                f"the staged messages belong to another store: {each!r}", fix="Ingest them with a client of that store",
                backend=BACKEND, topic=each.topic,
            )  # fmt: skip
        try:
            found += files_from_json(json.loads(each.detail))
        except (ValueError, TypeError, RecursionError) as error:
            raise ConfigError(f"the staged messages cannot be decoded: {each!r}", fix="Stage them again") from error
    if len({file.segment for file in found}) < len(found):
        raise ValueError("a staged file appears twice")
    return found


def files_to_json(files: Sequence[StagedFile]) -> list[Any]:
    """Return files as JSON values."""
    return [list(file) for file in files]


def files_from_json(said: Any) -> list[StagedFile]:
    """Return files from JSON values. Raise ``ValueError`` or ``TypeError`` if they are invalid."""
    return [_file(*each) for each in said]


def _file(segment: int, size: int, checksum: int, said: Any) -> StagedFile:
    runs = []
    start = 0
    for log, begin, messages, taken, marks in said:
        run = StagedRun(log, begin, messages, taken, tuple(StagedMark(*mark) for mark in marks))
        _check(run, start)
        runs.append(run)
        start += messages
    _check_numbers(segment, size, checksum)
    if not runs or not 0 <= segment < 1 << 32:
        raise ValueError("a staged file has no messages, or no valid segment")
    return StagedFile(segment, size, checksum, tuple(runs))


def _check(run: StagedRun, start: int) -> None:
    _check_numbers(run.log, run.start, run.messages, run.size)
    for mark in run.marks:
        _check_numbers(*mark)
    times, places = [mark.time for mark in run.marks], [mark.at for mark in run.marks]
    if run.start != start or not run.messages or not run.marks or run.marks[0].at or places[-1] >= run.messages:
        raise ValueError("a staged run does not begin where the one before it ends, or lacks its first page")
    if times != sorted(times) or places != sorted(set(places)):
        raise ValueError("the time index of a staged run does not ascend")


def _check_numbers(*numbers: object) -> None:
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise TypeError("a staged file has invalid numbers")


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
    piece = memoryview(bytearray(_CHECKSUM_READ_BYTES))  # reused: reading into new memory takes twice as long
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(piece):
            found = crc32c(piece[:count], found)
    return found
