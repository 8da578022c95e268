"""What was staged, in words: which messages lie in which file, so that the owner need not read them to take them in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mqplug import ConfigError
from mqplug.spi import Staged
from mqplug_rocksmq._settings import BACKEND


class StagedMark(NamedTuple):
    """An entry of the time index to be: the page that begins so far behind the run's start."""

    at: int
    time: int  # the largest timestamp of the run so far, that page included
    size: int  # bytes of the run's pages before it


class StagedRun(NamedTuple):
    """The messages in a file that are for one log."""

    log: int
    start: int  # where the first lies in the file's segment
    messages: int
    size: int  # bytes of all pages
    marks: tuple[StagedMark, ...]


class StagedFile(NamedTuple):
    """A table file. Its messages lie side by side in a segment of its own, from 0 on, log by log."""

    segment: int
    size: int
    checksum: int  # crc32c of its bytes
    runs: tuple[StagedRun, ...]

    @property
    def messages(self) -> int:
        """How many messages are in it."""
        return sum(run.messages for run in self.runs)


def staged(store: str, topic: str, files: Sequence[StagedFile]) -> Staged:
    """Return what says that these files were staged."""
    messages, size = sum(file.messages for file in files), sum(file.size for file in files)
    return Staged(BACKEND, store, topic, messages, size, json.dumps(files_to_json(files), separators=(",", ":")))


def files_of(store: str, several: Iterable[Staged]) -> list[StagedFile]:
    """Return the files of all that was staged; ``ConfigError`` for what was not staged for this store."""
    found = []
    for each in several:
        if (each.backend, each.cluster) != (BACKEND, store):
            raise ConfigError(
                f"what was staged is for another store: {each!r}", fix="Ingest it with a client of that store",
                backend=BACKEND, topic=each.topic,
            )  # fmt: skip
        try:
            found += files_from_json(json.loads(each.detail))
        except (ValueError, TypeError, RecursionError) as error:
            raise ConfigError(f"what was staged cannot be understood: {each!r}", fix="Stage it again") from error
    if len({file.segment for file in found}) < len(found):
        raise ValueError("the same is named twice among what was staged")
    return found


def files_to_json(files: Sequence[StagedFile]) -> list[Any]:
    """Return files as JSON has them."""
    return [list(file) for file in files]


def files_from_json(said: Any) -> list[StagedFile]:
    """Return the files that were said; ``ValueError`` or ``TypeError`` where they make no sense."""
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
        raise ValueError("a file without messages, or with no segment")
    return StagedFile(segment, size, checksum, tuple(runs))


def _check(run: StagedRun, start: int) -> None:
    _check_numbers(run.log, run.start, run.messages, run.size)
    for mark in run.marks:
        _check_numbers(*mark)
    times, places = [mark.time for mark in run.marks], [mark.at for mark in run.marks]
    if run.start != start or not run.messages or not run.marks or run.marks[0].at or places[-1] >= run.messages:
        raise ValueError("a run that does not begin where the one before it ends, or without its first page")
    if times != sorted(times) or places != sorted(set(places)):
        raise ValueError("the entries of a time index do not ascend")


def _check_numbers(*numbers: object) -> None:
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise TypeError("not numbers")
