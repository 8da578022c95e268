"""A bare program for single sends: one thread writes and syncs for all who wait, a page for each round.

Where nothing is synced there is nothing to share, and each caller writes its page of one message itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import Rdict

from benchmarks._load import MANY
from benchmarks._rocksdict import Appender, open_database, pages_of


class Committer:
    """``send`` waits until its value is on disk; ``submit`` only while there are so many on their way."""

    def __init__(self, database: Rdict, *, sync: bool, most: int = 1000) -> None:
        self._database = database
        self._appender = Appender(database, sync=False)
        self._sync = sync
        self._most = most
        self._room = threading.Semaphore(most)
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._dirty = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, value: bytes) -> None:
        """Store one value, and wait for it."""
        stored = threading.Lock()
        stored.acquire()
        self._waiting.append((value, stored.release))
        self._dirty.set()
        stored.acquire()

    def submit(self, value: bytes) -> None:
        """Store one value some time soon."""
        self._room.acquire()
        self._waiting.append((value, self._room.release))
        self._dirty.set()

    def flush(self) -> None:
        """Wait until all that was submitted is stored."""
        for _ in range(self._most):
            self._room.acquire()
        self._room.release(self._most)

    def close(self) -> None:
        """Store what is left, and let go of the database."""
        self._stopping = True
        self._dirty.set()
        self._thread.join()
        self._appender.close()

    def _run(self) -> None:
        while not self._stopping or self._waiting:
            self._dirty.wait()
            self._dirty.clear()
            while self._waiting:
                self._commit([self._waiting.popleft() for _ in range(min(MANY, len(self._waiting)))])

    def _commit(self, taken: list[tuple[bytes, Callable[[], None]]]) -> None:
        self._appender.append(0, pages_of([value for value, _ in taken]))
        if self._sync:
            self._database.flush_wal(True)
        for _, stored in taken:
            stored()


@contextmanager
def committer(directory: Path, *, sync: bool, most: int = 1000) -> Iterator[Committer]:
    """One over a database of its own."""
    with TemporaryDirectory(dir=directory) as path:
        database = open_database(Path(path))
        made = Committer(database, sync=sync, most=most)
        yield made
        made.close()
        database.close()


@contextmanager
def writer(directory: Path) -> Iterator[Callable[[bytes], None]]:
    """What writes one value in the caller's thread, unsynced."""
    with TemporaryDirectory(dir=directory) as path:
        database = open_database(Path(path))
        appender, lock = Appender(database, sync=False), threading.Lock()

        def write(value: bytes) -> None:
            with lock:
                appender.append(0, pages_of([value]))

        yield write
        appender.close()
        database.close()
