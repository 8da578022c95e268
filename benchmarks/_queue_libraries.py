"""Rival libraries that keep a queue in SQLite, used in batches where they can; those not installed are omitted."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import attrs

from benchmarks._contests import Side, Work
from benchmarks._load import BATCH_MESSAGES, Load


class LibraryQueue(Protocol):
    """An open queue of a library."""

    def put(self, values: Sequence[bytes]) -> None:
        """Store these values. They are safe when this returns."""
        ...

    def take(self, count: int) -> int:
        """Take out up to `count` values, and return how many there were."""
        ...


@attrs.frozen
class QueueLibrary:
    """A library, a description of its calls, and a function to open its queue with a ``synchronous`` of SQLite."""

    name: str
    package: str
    putting: str
    taking: str
    connect: Callable[[Any, str, str], AbstractContextManager[LibraryQueue]]
    batches: int = 2  # in a turn; fewer where a batch takes long

    def open(self, path: str, synchronous: str) -> AbstractContextManager[LibraryQueue]:
        """Open a queue in the directory `path`."""
        return self.connect(importlib.import_module(self.package), path, synchronous)


def putting(directory: Path, load: Load, synchronous: str) -> Iterator[Side]:
    """Return a side for each installed library that puts batches into a queue of its own."""
    for library in _installed():
        yield Side(library.name, library.putting, partial(_putting, directory, library, load, synchronous))


def taking(directory: Path, load: Load) -> Iterator[Side]:
    """Return a side for each installed library that takes a batch from its queue."""
    for library in _installed():
        yield Side(library.name, library.taking, partial(_taking, directory, library, load))


def is_installed(package: str) -> bool:
    """Return whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def missing() -> list[str]:
    """Return the libraries that are not installed."""
    return [each.name for each in LIBRARIES if not is_installed(each.package)]


def _installed() -> Iterator[QueueLibrary]:
    return (library for library in LIBRARIES if is_installed(library.package))


@contextmanager
def _putting(directory: Path, library: QueueLibrary, load: Load, synchronous: str) -> Iterator[Work]:
    def work() -> int:
        for _ in range(library.batches):
            queue.put(load.values)
        return library.batches * BATCH_MESSAGES

    with TemporaryDirectory(dir=directory) as path, library.open(path, synchronous) as queue:
        yield work


@contextmanager
def _taking(directory: Path, library: QueueLibrary, load: Load) -> Iterator[Work]:
    with TemporaryDirectory(dir=directory) as path, library.open(path, "OFF") as queue:
        queue.put(load.values)
        yield lambda: queue.take(BATCH_MESSAGES)


class _LiteQueue:
    def __init__(self, jobs: Any) -> None:
        self._jobs = jobs

    def put(self, values: Sequence[bytes]) -> None:
        with self._jobs.transaction():
            for value in values:
                self._jobs.put(value.decode("latin-1"))

    def take(self, count: int) -> int:
        for _ in range(count):
            self._jobs.done(self._jobs.pop().message_id)
        return count


@contextmanager
def _lite_queue(library: Any, path: str, synchronous: str) -> Iterator[LibraryQueue]:
    with closing(library.LiteQueue(f"{path}/queue.sqlite")) as jobs:
        jobs.conn.execute(f"PRAGMA synchronous={synchronous}")
        yield _LiteQueue(jobs)


class _PersistQueue:
    def __init__(self, jobs: Any) -> None:
        self._jobs = jobs

    def put(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._jobs.put(value)

    def take(self, count: int) -> int:
        for _ in range(count):
            self._jobs.get()
        self._jobs.task_done()
        return count


@contextmanager
def _persist_queue(library: Any, path: str, synchronous: str) -> Iterator[LibraryQueue]:
    with closing(library.FIFOSQLiteQueue(path, auto_commit=False)) as jobs:
        jobs._conn.execute(f"PRAGMA synchronous={synchronous}")
        yield _PersistQueue(jobs)


class _DiskCache:
    def __init__(self, jobs: Any) -> None:
        self._jobs = jobs

    def put(self, values: Sequence[bytes]) -> None:
        with self._jobs.transact():
            self._jobs.extend(values)

    def take(self, count: int) -> int:
        with self._jobs.transact():
            for _ in range(count):
                self._jobs.popleft()
        return count


@contextmanager
def _disk_cache(library: Any, path: str, synchronous: str) -> Iterator[LibraryQueue]:
    number = {"OFF": 0, "NORMAL": 1, "FULL": 2}[synchronous]
    with closing(library.Cache(path, sqlite_synchronous=number, eviction_policy="none")) as cache:
        yield _DiskCache(library.Deque.fromcache(cache))


LIBRARIES = (
    QueueLibrary(
        "persist-queue", "persistqueue", "FIFOSQLiteQueue: put of each, a transaction of its own",
        "FIFOSQLiteQueue, auto_commit=False: get of each, then task_done", _persist_queue, 1,
    ),
    QueueLibrary("litequeue", "litequeue", "1000 puts in a transaction", "pop and done of each", _lite_queue),
    QueueLibrary(
        "diskcache", "diskcache", "Deque.extend of 1000 in a transaction", "popleft of 1000 in one", _disk_cache
    ),
)  # fmt: skip
