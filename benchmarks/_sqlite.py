"""The same with sqlite3: a row for each message, a transaction for each batch."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._paired import Work

CREATE = "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, time INTEGER, key BLOB, value BLOB)"
INSERT = "INSERT INTO messages (time, key, value) VALUES (?, ?, ?)"


@contextmanager
def writing(directory: Path, values: Sequence[bytes], batches: int, synchronous: str) -> Iterator[Work]:
    """Insert these values, batch by batch, into a database of its own."""
    with TemporaryDirectory(dir=directory) as path, _open(Path(path), synchronous) as database:
        yield lambda: _write(database, values, batches)


@contextmanager
def filling(directory: Path, values: Sequence[bytes], batches: int) -> Iterator[Work]:
    """Write what `reading` reads."""
    with _open(directory, "NORMAL") as database:
        yield lambda: _write(database, values, batches)


@contextmanager
def reading(directory: Path) -> Iterator[Work]:
    """Read all values in order."""
    with _open(directory, "NORMAL") as database:
        yield lambda: _read(database)


def _open(directory: Path, synchronous: str) -> closing[sqlite3.Connection]:
    database = sqlite3.connect(directory / "messages.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute(CREATE)
    return closing(database)


def _write(database: sqlite3.Connection, values: Sequence[bytes], batches: int) -> int:
    for _ in range(batches):
        now = time.time_ns() // 1_000_000
        database.execute("BEGIN")
        database.executemany(INSERT, [(now, None, value) for value in values])
        database.execute("COMMIT")
    return batches * len(values)


def _read(database: sqlite3.Connection) -> int:
    found = database.execute("SELECT value FROM messages ORDER BY id")
    count = 0
    while rows := found.fetchmany(1000):
        count += len([value for (value,) in rows])
    return count
