"""The page store: the narrow seam over RocksDB. Nothing else imports rocksdict.

The traps that are kept out here: iterators are made, used and dropped inside one call, because a live one keeps the
database open after ``close``; they have no bounds, because rocksdict frees those too early; their status is checked,
because they end silently on an error; and the store is always in raw mode, which rocksdict does not check itself.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rocksdict import (
    AccessType,
    BottommostLevelCompaction,
    Checkpoint,
    ColumnFamily,
    CompactOptions,
    IngestExternalFileOptions,
    Rdict,
    RdictIter,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from mqplug import Corrupt, Error
from mqplug_rocksmq._engine.errors import translate, translated_errors
from mqplug_rocksmq._engine.tuning import RecoveryMode, Tuning
from mqplug_rocksmq._format.keys import PAGE_KEY_BYTES, page_key, read_page_key

MAX_OFFSET = (1 << 64) - 1
_DEFAULT_TUNING = Tuning()
_UNSYNCED = WriteOptions()  # made once for all
WantsMore = Callable[[int, bytes], bool]


class TableFile(NamedTuple):
    """One file of pages: its first and last key, and how large it is."""

    first: bytes
    last: bytes
    size: int


class Pages:
    """Pages by (segment, offset) and small values by key, in one RocksDB. Not for several threads at once."""

    def __init__(
        self,
        path: Path,
        tuning: Tuning = _DEFAULT_TUNING,
        recovery: RecoveryMode = "strict",
        *,
        read_only: bool = False,
    ) -> None:
        self._path, self._tuning = path, tuning
        self._recovery: RecoveryMode = recovery
        self._access = AccessType.read_only() if read_only else AccessType.read_write()
        self._open = False
        self.reopen()

    def reopen(self) -> None:
        """Open anew; the only way to have RocksDB go on after an error of its disk."""
        self.close()
        _check_raw_mode(self._path)
        options, families = self._tuning.families(self._recovery)
        with translated_errors():
            self._db = Rdict(str(self._path), options, families, self._access)
            self._data = self._db.get_column_family("data")
            self._meta = self._db.get_column_family("meta")
            self._families = {name: self._db.get_column_family_handle(name) for name in families}
        self._open = True

    def changes(self) -> Changes:
        """Return an empty set of changes, to be written once."""
        return Changes(self._families)

    def write(self, changes: Changes) -> None:
        """Apply all changes or none. They survive the death of the process; ``sync`` makes them survive the host's."""
        try:
            self._db.write(changes.batch, _UNSYNCED)
        except Exception as error:
            raise translate(error) from error

    def sync(self) -> None:
        """Wait until all that was written before is on disk; other threads may run, and write, meanwhile."""
        with translated_errors():
            self._db.flush_wal(True)

    def get(self, key: bytes) -> bytes | None:
        """Return the small value under a key."""
        with translated_errors():
            value: bytes | None = self._meta.get(key)
            return value

    def scan(self, prefix: bytes, start: bytes = b"", limit: int = MAX_OFFSET) -> list[tuple[bytes, bytes]]:
        """Return the small values whose keys begin with *prefix*, in order, from *start* on."""
        with translated_errors():
            found: list[tuple[bytes, bytes]] = []
            cursor = self._meta.iter()
            cursor.seek(max(prefix, start))
            while cursor.valid() and len(found) < limit and (key := cursor.key()).startswith(prefix):
                found.append((key, cursor.value()))
                cursor.next()
            cursor.status()
            return found

    def read(self, segment: int, offset: int, more: WantsMore | None = None) -> list[tuple[int, bytes]]:
        """Return pages with their offsets, from the last one that starts at or before *offset*.

        Where there is none, they begin with the first one behind it. They end when *more* says so of a page; without
        it there is one at most.
        """
        try:
            cursor = self._data.iter()
            wanted = page_key(segment, offset)
            cursor.seek(wanted)
            if not cursor.valid() or cursor.key() != wanted:  # to look backward costs more, and is needed seldom
                cursor.seek_for_prev(wanted)
                if not cursor.valid() or read_page_key(cursor.key())[0] != segment:
                    cursor.status()
                    cursor.seek(wanted)
            return _read_on(cursor, segment, more)
        except Exception as error:
            raise translate(error) from error

    def scan_back(self, prefix: bytes, start: bytes) -> tuple[bytes, bytes] | None:
        """Return the last small value up to *start* whose key begins with *prefix*."""
        with translated_errors():
            cursor = self._meta.iter()
            cursor.seek_for_prev(start)
            found = (cursor.key(), cursor.value()) if cursor.valid() and cursor.key().startswith(prefix) else None
            cursor.status()
            return found

    def last(self, segment: int) -> tuple[int, bytes] | None:
        """Return the last page of a segment."""
        found = self.read(segment, MAX_OFFSET)
        return found[0] if found else None

    def ingest(self, paths: Sequence[Path]) -> None:
        """Take in table files, all or none, durably; they are gone from where they were."""
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        with translated_errors():
            self._data.ingest_external_file([str(path) for path in paths], options)

    def compact(self, segment: int, start: int, stop: int) -> None:
        """Give back the room of dropped pages; other threads may run meanwhile."""
        with translated_errors():
            self._data.compact_range(page_key(segment, start), page_key(segment, stop))

    def tables(self) -> list[TableFile]:
        """Return the tables that hold pages, in the order of their keys."""
        with translated_errors():
            found = [TableFile(file["start_key"], file["end_key"], file["size"]) for file in self._data.live_files()]
        return sorted(table for table in found if len(table.first) == len(table.last) == PAGE_KEY_BYTES)

    def merge(self, first: bytes, last: bytes) -> None:
        """Write the tables between two keys anew, as few of them; other threads may run meanwhile."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        with translated_errors():
            self._data.compact_range(first, last, options)

    def read_until_error(self, family: str, start: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], Error | None]:
        """Return what a column family holds from *start* on, up to so many bytes, and the error that ended it early."""
        found: list[tuple[bytes, bytes]] = []
        try:
            cursor = self._family(family).iter()
            cursor.seek(start)
            while cursor.valid() and most > 0:
                found.append((cursor.key(), cursor.value()))
                most -= len(found[-1][1])
                cursor.next()
            cursor.status()
        except Exception as error:  # noqa: BLE001 - RocksDB's errors have no other type
            return found, translate(error)
        return found, None

    def _family(self, name: str) -> Rdict:
        return self._data if name == "data" else self._meta

    def number_property(self, name: str, family: str = "data") -> int:
        """Return a property of RocksDB's, which is a number."""
        with translated_errors():
            return int(self._family(family).property_int_value(name) or 0)

    def text_property(self, name: str, family: str = "data") -> str:
        """Return a property of RocksDB's, which is a text."""
        with translated_errors():
            return str(self._family(family).property_value(name) or "")

    def checkpoint(self, path: Path) -> None:
        """Make a copy as of now, of links where they are possible, in a directory that does not exist yet."""
        with translated_errors():
            Checkpoint(self._db).create_checkpoint(str(path))

    def compact_all(self) -> None:
        """Give back all room that can be given back; other threads may run meanwhile."""
        with translated_errors():
            for family in (self._data, self._meta):
                family.flush(True)
                family.compact_range(None, None)

    @property
    def stuck(self) -> bool:
        """Whether RocksDB found no room for work of its own since it was opened, and may do none until it is anew.

        It does not say so: a compaction that is asked for then returns as if it were done.
        """
        with translated_errors():
            return bool(self._db.property_int_value("rocksdb.background-errors"))  # it counts them here for all

    def cancel(self) -> None:
        """End compactions that run; nothing can be flushed or compacted afterwards."""
        with translated_errors():
            self._db.cancel_all_background(True)

    def flush(self) -> None:
        """Move all that was written from the write-ahead log into table files."""
        with translated_errors():
            for family in (self._data, self._meta):
                family.flush(True)

    def abandon(self) -> None:
        """Keep the database from being closed in the child of a fork, where that crashes the process."""
        for native in (self._db, self._data, self._meta, *self._families.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))

    def close(self) -> None:
        """Close the database and its lock, whatever its disk says to that; then raise it."""
        if not self._open:
            return
        self._open = False
        self._families.clear()
        failures: list[Error] = []
        for handle in (self._data, self._meta, self._db):
            try:
                handle.close()
            except Exception as error:  # noqa: BLE001 - RocksDB's errors have no other type
                failures.append(translate(error))
        del self._data, self._meta
        if failures:
            raise failures[0]


def rebuild_database(path: Path) -> None:
    """Have RocksDB find its own files again, where it has lost track of them."""
    with translated_errors():
        Rdict.repair(str(path), _DEFAULT_TUNING.options())


def write_table(path: Path, pages: Iterable[tuple[int, int, bytes]]) -> None:
    """Write a table file, on disk, of pages with their segments and offsets, in order."""
    with translated_errors():
        writer = SstFileWriter(_DEFAULT_TUNING.families("strict")[1]["data"])
        writer.open(str(path))
        for segment, offset, page in pages:
            writer[page_key(segment, offset)] = page
        writer.finish()


class Changes:
    """A set of changes that is applied as one.

    It holds no handle of its own, because one in a forgotten traceback would keep the database open.
    """

    __slots__ = ("_families", "batch")

    def __init__(self, families: Mapping[str, ColumnFamily]) -> None:
        self.batch = WriteBatch(raw_mode=True)
        self._families = families

    def put_page(self, segment: int, offset: int, page: bytes) -> None:
        """Store a page."""
        self.batch.put(page_key(segment, offset), page, self._families["data"])

    def drop_pages(self, segment: int, start: int, stop: int) -> None:
        """Remove the pages that start in this range of offsets."""
        self.batch.delete_range(page_key(segment, start), page_key(segment, stop), self._families["data"])

    def put(self, key: bytes, value: bytes) -> None:
        """Store a small value."""
        self.batch.put(key, value, self._families["meta"])

    def delete(self, key: bytes) -> None:
        """Remove a small value."""
        self.batch.delete(key, self._families["meta"])

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Remove the small values with keys from *start* up to *stop*."""
        self.batch.delete_range(start, stop, self._families["meta"])


def _read_on(cursor: RdictIter, segment: int, more: WantsMore | None) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while cursor.valid():
        at, base = read_page_key(cursor.key())
        if at != segment:
            break
        page: bytes = cursor.value()
        found.append((base, page))
        if more is None or not more(base, page):
            break
        cursor.next()
    cursor.status()
    return found


def _check_raw_mode(path: Path) -> None:
    """Refuse a database that rocksdict would open in its other mode, and spoil."""
    config = path / "rocksdict-config.json"
    try:
        raw = not config.exists() or json.loads(config.read_text())["raw_mode"]
    except (ValueError, KeyError, TypeError):
        # rocksdict writes it anew each time, in place: whoever was killed meanwhile left a part. It is not needed.
        config.unlink()
        return
    if not raw:
        raise Corrupt(
            f"{path} was opened by a program that does not use rocksdict's raw mode",
            fix=f"Make sure that nothing else opens it, then set raw_mode to true in {config.name}",
        )


def _exit_without_joining() -> None:
    """In the child of a fork, have ``exit`` skip RocksDB's last act, which joins threads that exist in the parent only.

    It would crash the child even if every database was closed before the fork.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # where the C library lacks it, children have to leave with os._exit
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=_exit_without_joining)
