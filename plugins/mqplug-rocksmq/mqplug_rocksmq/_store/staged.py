"""Descriptions of staged files: which messages each has, so that the owner can ingest it without reading it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mqplug import ConfigError
from mqplug.spi import Staged
from mqplug_rocksmq._settings import BACKEND


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
    """Return the files of staged batches. Raise ``ConfigError`` for those of another store."""
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
        raise ValueError("a staged file is given twice")
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
        raise ValueError("a staged file without messages or without a valid segment")
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
