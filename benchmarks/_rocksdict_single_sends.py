"""Bare rocksdict programs for single sends, synced by one committing thread or unsynced in the caller's thread.

The committing thread writes the waiting messages together and syncs once for all of them. Without a sync there is
nothing to share, so each caller writes a page of one message itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import Rdict

from benchmarks._load import BATCH_MESSAGES
from benchmarks._rocksdict import PageAppender, open_database, pages_of


class BareCommitter:
    """A thread that writes for all callers. ``send`` waits for its value, ``submit`` only while `most` are pending."""

    def __init__(self, database: Rdict, *, sync: bool, most: int = 1000) -> None:
        self._database = database
        self._appender = PageAppender(database, sync=False)
        self._sync = sync
        self._most = most
        self._room = threading.Semaphore(most)
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._dirty = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, value: bytes) -> None:
        """Store one value and wait until it is stored."""
        stored = threading.Lock()
        stored.acquire()
        self._waiting.append((value, stored.release))
        self._dirty.set()
        stored.acquire()

    def submit(self, value: bytes) -> None:
        """Queue one value to be stored in the background."""
        self._room.acquire()
        self._waiting.append((value, self._room.release))
        self._dirty.set()

    def flush(self) -> None:
        """Wait until all submitted values are stored."""
        for _ in range(self._most):
            self._room.acquire()
        self._room.release(self._most)

    def close(self) -> None:
        """Store the remaining values and release the database."""
        self._stopping = True
        self._dirty.set()
        self._thread.join()
        self._appender.close()

    def _run(self) -> None:
        while not self._stopping or self._waiting:
            self._dirty.wait()
            self._dirty.clear()
            while self._waiting:
                self._commit([self._waiting.popleft() for _ in range(min(BATCH_MESSAGES, len(self._waiting)))])

    def _commit(self, taken: list[tuple[bytes, Callable[[], None]]]) -> None:
        self._appender.append(0, pages_of([value for value, _ in taken]))
        if self._sync:
            self._database.flush_wal(True)
        for _, stored in taken:
            stored()


@contextmanager
def open_committer(directory: Path, *, sync: bool, most: int = 1000) -> Iterator[BareCommitter]:
    """Open a committer with a database of its own."""
    with TemporaryDirectory(dir=directory) as path:
        database = open_database(Path(path))
        made = BareCommitter(database, sync=sync, most=most)
        yield made
        made.close()
        database.close()


@contextmanager
def open_writer(directory: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that writes one value in the caller's thread, unsynced."""
    with TemporaryDirectory(dir=directory) as path:
        database = open_database(Path(path))
        appender, lock = PageAppender(database, sync=False), threading.Lock()

        def write(value: bytes) -> None:
            with lock:
                appender.append(0, pages_of([value]))

        yield write
        appender.close()
        database.close()
