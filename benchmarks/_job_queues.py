"""Rival job queues on SQLite: one written by hand, litequeue and persist-queue."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._contests import Work


@contextmanager
def by_hand(directory: Path, value: bytes, count: int, many: int, synchronous: str) -> Iterator[Work]:
    """Prepare the minimum for one process: rows in order, taken jobs in memory, acked jobs deleted."""
    with TemporaryDirectory(dir=directory) as path, _database(Path(path), synchronous) as db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, value BLOB)")

        def work() -> int:
            for _ in range(0, count, many):
                with _transaction(db):
                    db.executemany("INSERT INTO jobs (value) VALUES (?)", [(value,)] * many)
            last = 0
            while jobs := db.execute("SELECT id, value FROM jobs WHERE id > ? LIMIT ?", (last, many)).fetchall():
                last = jobs[-1][0]
                with _transaction(db):
                    db.executemany("DELETE FROM jobs WHERE id = ?", [job[:1] for job in jobs])
            return count

        yield work


def _database(path: Path, synchronous: str) -> closing[sqlite3.Connection]:
    db = sqlite3.connect(path / "jobs.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={synchronous}")
    return closing(db)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN")
    yield
    db.execute("COMMIT")


@contextmanager
def litequeue(directory: Path, value: bytes, count: int, many: int, synchronous: str) -> Iterator[Work]:
    """Prepare put, pop and done of litequeue: `many` puts in one transaction, each pop in its own."""
    library: Any = importlib.import_module("litequeue")
    with TemporaryDirectory(dir=directory) as path, closing(library.LiteQueue(f"{path}/jobs.sqlite")) as jobs:
        jobs.conn.execute(f"PRAGMA synchronous={synchronous}")
        text = value.decode("latin-1")

        def together() -> AbstractContextManager[Any]:
            return jobs.transaction() if many > 1 else nullcontext()

        def work() -> int:
            for _ in range(0, count, many):
                with together():
                    for _ in range(many):
                        jobs.put(text)
            for _ in range(count):
                jobs.done(jobs.pop().message_id)
            return count

        yield work


@contextmanager
def persist_queue(directory: Path, value: bytes, count: int, synchronous: str) -> Iterator[Work]:
    """Prepare put, get and ack of persist-queue's SQLiteAckQueue, which has no batches."""
    library: Any = importlib.import_module("persistqueue")
    with TemporaryDirectory(dir=directory) as path, closing(library.SQLiteAckQueue(path)) as jobs:
        jobs._conn.execute(f"PRAGMA synchronous={synchronous}")

        def work() -> int:
            for _ in range(count):
                jobs.put(value)
            for _ in range(count):
                job = jobs.get(raw=True)
                jobs.ack(id=job["pqid"])
            return count

        yield work
