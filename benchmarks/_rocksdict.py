"""A bare rocksdict program that stores the very pages of mqplug-rocksmq, with the same options of RocksDB.

It has no topics, groups, ids, retention, locks or wake-ups. It takes the page format from the plugin's own module, so
that both sides write the same bytes; that is the one place where private names are used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory

from rocksdict import AccessType, Rdict, WriteBatch, WriteOptions

from benchmarks._paired import Work
from mqplug_rocksmq._page import Columns, Page, encode
from mqplug_rocksmq._tuning import Tuning

KEY, RECORD = Struct(">IQ"), Struct("<6Q")


@contextmanager
def writing(directory: Path, values: Sequence[bytes], batches: int, *, sync: bool) -> Iterator[Work]:
    """Write pages of these values into a database of its own."""
    with TemporaryDirectory(dir=directory) as path:
        database = _open(Path(path))
        yield lambda: _write(database, values, batches, sync=sync)
        database.close()


@contextmanager
def filling(directory: Path, values: Sequence[bytes], batches: int) -> Iterator[Work]:
    """Write what `reading` reads."""
    database = _open(directory / "rocksdict")
    yield lambda: _write(database, values, batches, sync=False)
    database.get_column_family("data").flush(True)
    database.close()


@contextmanager
def reading(directory: Path) -> Iterator[Work]:
    """Read all pages, and decode the values."""
    database = _open(directory / "rocksdict")
    yield lambda: _read(database)
    database.close()


def _open(path: Path) -> Rdict:
    options, families = Tuning().families("strict")
    return Rdict(str(path), options, families, AccessType.read_write())


def _write(database: Rdict, values: Sequence[bytes], batches: int, *, sync: bool) -> int:
    data, meta = (database.get_column_family_handle(name) for name in ("data", "meta"))
    options = WriteOptions()
    options.sync = sync
    count = len(values)
    for base in range(0, batches * count, count):
        page = encode(Columns([time.time_ns() // 1_000_000] * count, values)).seal(base)
        changes = WriteBatch(raw_mode=True)
        changes.put(KEY.pack(1, base), page, data)
        changes.put(b"log", RECORD.pack(0, base + count, base + count, 0, 0, base + count), meta)
        database.write(changes, options)
    return batches * count


def _read(database: Rdict) -> int:
    cursor = database.get_column_family("data").iter()
    cursor.seek_to_first()
    count = 0
    while cursor.valid():
        count += len(Page(cursor.value()).values())
        cursor.next()
    return count
