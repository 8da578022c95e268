"""Programs on sqlite3 that store a row for each message and commit each batch in a transaction.

The table has no index except its primary key, which is the minimum for reading in order.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from benchmarks._contests import Work
from benchmarks._load import BATCH_MESSAGES, Load

CREATE_MESSAGES = """
CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, partition INTEGER, time INTEGER, key BLOB, value BLOB)
"""
INSERT_MESSAGE = "INSERT INTO messages (partition, time, key, value) VALUES (?, ?, ?, ?)"
CREATE_LOG = """
CREATE TABLE log (partition INTEGER, position INTEGER, time INTEGER, key BLOB, value BLOB);
CREATE UNIQUE INDEX log_positions ON log (partition, position);
CREATE INDEX log_times ON log (partition, time);
"""
INSERT_LOG = "INSERT INTO log VALUES (?, ?, ?, ?, ?)"
SELECT_ALL = "SELECT id, time, key, value FROM messages ORDER BY id"


@contextmanager
def writing(directory: Path, load: Load, origin: str, synchronous: str) -> Iterator[Work]:
    """Prepare to insert values or Arrow arrays, batch by batch, into a new database."""

    def values() -> list[bytes]:
        found: list[bytes] = load.table.column("value").to_pylist() if origin == "arrow" else load.values
        return found

    with TemporaryDirectory(dir=directory) as path, open_database(Path(path), synchronous) as database:
        yield lambda: _write(database, load, values)


@contextmanager
def writing_log(directory: Path, load: Load, synchronous: str) -> Iterator[Work]:
    """Prepare the same with the features of a log: offsets for each partition and an index by time."""
    with TemporaryDirectory(dir=directory) as path, open_database(Path(path), synchronous) as database:
        database.executescript(CREATE_LOG)
        yield lambda: _write_log(database, load)


def fill(directory: Path, load: Load) -> None:
    """Create the database that `reading` reads."""
    directory.mkdir()
    with open_database(directory, "NORMAL") as database:
        _write(database, load, lambda: load.values)


@contextmanager
def reading(directory: Path, form: str) -> Iterator[Work]:
    """Prepare to read all rows in order, to values, to tuples of all columns, or to Arrow."""
    with open_database(directory, "NORMAL") as database:
        yield lambda: _FORMS[form](database)


def open_database(directory: Path, synchronous: str) -> closing[sqlite3.Connection]:
    """Open or create a database with a write-ahead log, which any thread may use."""
    database = sqlite3.connect(directory / "messages.sqlite", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute(CREATE_MESSAGES)
    return closing(database)


def insert_one(database: sqlite3.Connection, value: bytes) -> None:
    """Insert a row in its own transaction."""
    database.execute(INSERT_MESSAGE, (0, time.time_ns() // 1_000_000, None, value))


def _write(database: sqlite3.Connection, load: Load, values: Callable[[], list[bytes]]) -> int:
    for number in range(load.batches):
        now, partition = time.time_ns() // 1_000_000, number % load.partitions
        database.execute("BEGIN")
        database.executemany(INSERT_MESSAGE, [(partition, now, None, value) for value in values()])
        database.execute("COMMIT")
    return load.messages


def _write_log(database: sqlite3.Connection, load: Load) -> int:
    values, ends = load.values, [0] * load.partitions
    for number in range(load.batches):
        now, partition = time.time_ns() // 1_000_000, number % load.partitions
        rows = enumerate(values, ends[partition])
        database.execute("BEGIN")
        database.executemany(INSERT_LOG, [(partition, position, now, None, value) for position, value in rows])
        database.execute("COMMIT")
        ends[partition] += BATCH_MESSAGES
    return load.messages


def _values(database: sqlite3.Connection) -> int:
    found = database.execute("SELECT value FROM messages ORDER BY id")
    count = 0
    while rows := found.fetchmany(BATCH_MESSAGES):
        count += len([value for (value,) in rows])
    return count


def _tuples(database: sqlite3.Connection) -> int:
    count = 0
    for _, _, _, value in database.execute(SELECT_ALL):
        assert value
        count += 1
    return count


def _arrow(database: sqlite3.Connection) -> int:
    found = database.execute(SELECT_ALL)
    names, count = ["id", "time", "key", "value"], 0
    while rows := found.fetchmany(BATCH_MESSAGES):
        count += pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=names).num_rows
    return count


_FORMS = {"values": _values, "messages": _tuples, "arrow": _arrow}
