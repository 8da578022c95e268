"""RocksDB as pages and small values: the only module, besides tuning, that imports rocksdict.

It avoids five traps of rocksdict. Iterators are made, used and dropped inside one call, because a live one keeps the
database open after ``close``. They have no bounds, because rocksdict frees those too early. Their status is checked,
because they end silently on an error. Raw mode is enforced, because rocksdict does not check it. And a store's writes
do not wait for RocksDB's background threads, because rocksdict would hold the interpreter's lock during that wait.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
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

from mqplug import Closed, Corrupt, Error, ForkedClient
from mqplug_rocksmq._engine.errors import CANCELLED, cannot_open, translate, translated_errors
from mqplug_rocksmq._engine.store_files import expect_readable_records, writable
from mqplug_rocksmq._engine.tuning import DATA_BUFFER_COUNT, META_BUFFER_COUNT, RecoveryMode, Tuning
from mqplug_rocksmq._format.keys import PAGE_KEY_BYTES, page_key, read_page_key

MAX_KEY_OFFSET = (1 << 64) - 1
_DEFAULT_TUNING = Tuning()
_SLOWED = WriteOptions()  # created once, because each write needs them
_AT_ONCE = WriteOptions()
_AT_ONCE.no_slowdown = True
_began_in: int | None = None  # the process in which RocksDB's threads began
WantsMore = Callable[[int, bytes], bool]


class TableFile(NamedTuple):
    """A table file of pages: its first and last key, and its size in bytes."""

    first: bytes
    last: bytes
    size: int


class Pages:
    """Pages by (segment, offset) and small values by key, in one RocksDB. Not thread-safe."""

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
        self._read_only = read_only
        self._links: TemporaryDirectory[str] | None = None
        self._open = False
        self._patient = True
        self._write_options = _SLOWED
        self.reopen()

    def reopen(self) -> None:
        """Close and open the database: the only way in which RocksDB resumes after a disk error."""
        self.close()
        _begin_threads(self._path.parent)
        try:
            path = self._prepared()
        except OSError as error:
            raise cannot_open(self._path, error) from error
        access = AccessType.read_only() if self._read_only else AccessType.read_write()
        options, families = self._tuning.families(self._recovery)
        with translated_errors():
            self._db = Rdict(str(path), options, families, access)
            self._data = self._db.get_column_family("data")
            self._meta = self._db.get_column_family("meta")
            self._families = {name: self._db.get_column_family_handle(name) for name in families}
        self._open = True

    def _prepared(self) -> Path:
        """Refuse files that RocksDB would damage, or read forever. Return the directory to open."""
        _check_raw_mode(self._path)
        expect_readable_records(self._path)
        if self._read_only and self._path.is_dir() and not writable(self._path):
            self._links = links_to(self._path)
            return Path(self._links.name)
        return self._path

    def be_impatient(self) -> None:
        """Make writes raise ``WritesStopped`` instead of waiting in RocksDB, which would stop the whole process."""
        self._patient, self._write_options = False, _AT_ONCE

    def changes(self) -> Changes:
        """Return an empty set of changes, for a single ``write``."""
        return Changes(self._families)

    def write(self, changes: Changes) -> None:
        """Apply all changes or none. They survive the death of the process, and after ``sync`` the death of the host.

        After ``be_impatient``, raise ``WritesStopped`` if the write would have to wait. Before a retry, call
        ``takes_writes``.
        """
        options, self._write_options = self._write_options, _SLOWED if self._patient else _AT_ONCE
        try:
            self._db.write(changes.batch, options)
        except Exception as error:
            raise translate(error) from error

    def takes_writes(self) -> bool:
        """Return whether RocksDB accepts another write. If it slows writes down, the next one waits that long."""
        stopped = self.number_property("rocksdb.is-write-stopped")
        full = [self.number_property("rocksdb.num-immutable-mem-table", family) for family in ("data", "meta")]
        if stopped or full[0] >= DATA_BUFFER_COUNT - 1 or full[1] >= META_BUFFER_COUNT - 1:  # or the next one may stop
            return False
        self._write_options = _SLOWED
        return True

    def sync(self) -> None:
        """Wait until all earlier writes are on disk. Other threads may write during that wait."""
        with translated_errors():
            self._db.flush_wal(True)

    def get(self, key: bytes) -> bytes | None:
        """Return the small value under a key, or None."""
        with translated_errors():
            value: bytes | None = self._meta.get(key)
            return value

    def scan(self, prefix: bytes, start: bytes = b"", limit: int = MAX_KEY_OFFSET) -> list[tuple[bytes, bytes]]:
        """Return up to *limit* small values whose keys begin with *prefix*, in order, from *start* on."""
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

        Without one, they begin with the first after *offset*. They end with the first page for which *more* returns
        False. Without *more*, there is one page at most.
        """
        try:
            cursor = self._data.iter()
            wanted = page_key(segment, offset)
            cursor.seek(wanted)
            if not cursor.valid() or cursor.key() != wanted:  # looking backward costs more, and is rarely needed
                cursor.seek_for_prev(wanted)
                if not cursor.valid() or read_page_key(cursor.key())[0] != segment:
                    cursor.status()
                    cursor.seek(wanted)
            return _read_on(cursor, segment, more)
        except Exception as error:
            raise translate(error) from error

    def scan_back(self, prefix: bytes, start: bytes) -> tuple[bytes, bytes] | None:
        """Return the last small value at or before *start* whose key begins with *prefix*, or None."""
        with translated_errors():
            cursor = self._meta.iter()
            cursor.seek_for_prev(start)
            found = (cursor.key(), cursor.value()) if cursor.valid() and cursor.key().startswith(prefix) else None
            cursor.status()
            return found

    def last(self, segment: int) -> tuple[int, bytes] | None:
        """Return the last page of a segment with its offset, or None."""
        found = self.read(segment, MAX_KEY_OFFSET)
        return found[0] if found else None

    def ingest(self, paths: Sequence[Path]) -> None:
        """Ingest table files durably, all or none. They are moved, not copied."""
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        with translated_errors():
            self._data.ingest_external_file([str(path) for path in paths], options)

    def compact(self, segment: int, start: int, stop: int) -> None:
        """Free the disk space of dropped pages. Other threads continue to run."""
        with translated_errors():
            self._data.compact_range(page_key(segment, start), page_key(segment, stop))

    def tables(self) -> list[TableFile]:
        """Return the table files that hold pages, in the order of their keys."""
        with translated_errors():
            found = [TableFile(file["start_key"], file["end_key"], file["size"]) for file in self._data.live_files()]
        return sorted(table for table in found if len(table.first) == len(table.last) == PAGE_KEY_BYTES)

    def merge(self, first: bytes, last: bytes) -> None:
        """Rewrite the tables between two keys as a few larger ones. Other threads continue to run."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        with translated_errors():
            self._data.compact_range(first, last, options)

    def read_until_error(self, family: str, start: bytes, most: int) -> tuple[list[tuple[bytes, bytes]], Error | None]:
        """Return a column family's entries from *start* on, up to *most* bytes, and the error that cut them short."""
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
        return {"data": self._data, "meta": self._meta, "default": self._db}[name]

    def number_property(self, name: str, family: str = "data") -> int:
        """Return a numeric RocksDB property."""
        with translated_errors():
            return int(self._family(family).property_int_value(name) or 0)

    def text_property(self, name: str, family: str = "data") -> str:
        """Return a textual RocksDB property."""
        with translated_errors():
            return str(self._family(family).property_value(name) or "")

    def checkpoint(self, path: Path) -> None:
        """Copy the database as of now into a new directory, with hard links where possible."""
        with translated_errors():
            Checkpoint(self._db).create_checkpoint(str(path))

    def compact_all(self) -> None:
        """Compact everything. Other threads continue to run."""
        with translated_errors():
            for family in (self._db, self._data, self._meta):
                family.flush(True)
                family.compact_range(None, None)

    @property
    def stuck(self) -> bool:
        """Whether RocksDB's background work failed for lack of space, and stopped until the database is reopened.

        RocksDB does not report this: a compaction then returns as if it had succeeded.
        """
        with translated_errors():
            return bool(self._db.property_int_value("rocksdb.background-errors"))  # a count over all column families

    def cancel(self) -> None:
        """Cancel running compactions. Nothing can be flushed or compacted afterwards.

        Does nothing while another thread closes the database to reopen it: no compaction runs then.
        """
        with suppress(Closed), translated_errors(), suppress(RuntimeError):  # RuntimeError while it is being closed
            self._db.cancel_all_background(True)

    def flush(self) -> None:
        """Move all writes from the write-ahead log into table files."""
        with translated_errors():
            for family in (self._db, self._data, self._meta):
                family.flush(True)

    def abandon(self) -> None:
        """Leak the database in the child of a fork, where closing it crashes the process."""
        for native in (self._db, self._data, self._meta, *self._families.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))

    def close(self) -> None:
        """Close the database and its lock despite disk errors, then raise the first of them."""
        if self._links:
            self._links.cleanup()
            self._links = None
        if not self._open:
            return
        self._open = False
        self._families.clear()
        failures: list[Error] = []
        for handle in (self._data, self._meta, self._db):
            try:
                handle.close()
            except Exception as error:  # noqa: BLE001 - RocksDB's errors have no other type
                if not str(error).startswith(CANCELLED):  # writes that are in no table are in the write-ahead log
                    failures.append(translate(error))
        del self._data, self._meta
        if failures:
            raise failures[0]


def rebuild_database(path: Path, families: Sequence[str]) -> None:
    """Make RocksDB rebuild its list of files from the files on disk.

    RocksDB numbers column families in the order of their creation, here the order of *families*. It skips the
    write-ahead log's records of a family without a table, so each family gets an empty one.
    """
    with translated_errors():
        _add_empty_tables(path, families)
        Rdict.repair(str(path), _DEFAULT_TUNING.options())


def _add_empty_tables(path: Path, families: Sequence[str]) -> None:
    made = path / "empty"
    db = Rdict(str(made), _DEFAULT_TUNING.options())
    for name in families:
        family = db.create_column_family(name, _DEFAULT_TUNING.options())
        family.delete(b"")  # an unused key: RocksDB writes no table without entries
        family.flush(True)
        family.close()
    db.close()
    following = 1 + max((int(file.stem) for file in path.glob("*[0-9].???")), default=0)
    for number, table in enumerate(sorted(made.glob("*.sst")), following):
        table.rename(path / f"{number:06}.sst")
    shutil.rmtree(made)


def write_table(path: Path, pages: Iterable[tuple[int, int, bytes]]) -> None:
    """Write pages (segment, offset, page), in the order of their keys, to a table file on disk."""
    with translated_errors():
        writer = SstFileWriter(_DEFAULT_TUNING.families("strict")[1]["data"])
        writer.open(str(path))
        for segment, offset, page in pages:
            writer[page_key(segment, offset)] = page
        writer.finish()


class Changes:
    """A set of changes that is applied atomically.

    It holds no database handle, because one in a forgotten traceback would keep the database open.
    """

    __slots__ = ("_families", "batch")

    def __init__(self, families: Mapping[str, ColumnFamily]) -> None:
        self.batch = WriteBatch(raw_mode=True)
        self._families = families

    def put_page(self, segment: int, offset: int, page: bytes) -> None:
        """Store a page."""
        self.batch.put(page_key(segment, offset), page, self._families["data"])

    def drop_pages(self, segment: int, start: int, stop: int) -> None:
        """Remove the pages that start at offsets from *start* up to *stop*."""
        self.batch.delete_range(page_key(segment, start), page_key(segment, stop), self._families["data"])

    def put(self, key: bytes, value: bytes) -> None:
        """Store a small value."""
        self.batch.put(key, value, self._families["meta"])

    def put_copied(self, key: bytes, value: bytes) -> None:
        """Store a small value, and a copy in the column family "default", which is in other files."""
        self.put(key, value)
        self.batch.put(key, value)

    def delete_copied(self, key: bytes) -> None:
        """Remove a small value and its copy."""
        self.delete(key)
        self.batch.delete(key)

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


def _begin_threads(store: Path) -> None:
    global _began_in
    refuse_after_fork(store)
    _began_in = os.getpid()


def refuse_after_fork(store: Path) -> None:
    """Raise ``ForkedClient`` if a parent of this process had opened a database when it forked.

    RocksDB's background threads begin with the first database, and never end. The child of a fork does not have them,
    and RocksDB does not begin them again: once the write buffers are full, a write would wait forever.
    """
    if _began_in not in {None, os.getpid()}:
        raise ForkedClient(
            f"this process cannot own the store {store}: it was forked from a process that had opened a store, so"
            " RocksDB's threads are missing",
            fix="Connect in the parent only after it has forked, start workers by spawn instead of fork, or have"
            f" another process own the store, for instance mqplug rocksmq serve {store}",
            backend="rocksmq",
        )


def links_to(database: Path) -> TemporaryDirectory[str]:
    """Return a directory of links to the files of a read-only database: rocksdict writes files even to read."""
    links = TemporaryDirectory(prefix="mqplug-")
    for file in database.iterdir():
        if not file.name.startswith(("LOG", "LOCK", "rocksdict-config")):
            Path(links.name, file.name).symlink_to(file)
    return links


def _check_raw_mode(path: Path) -> None:
    """Raise ``Corrupt`` for a database that rocksdict would open in its other mode, and so damage."""
    config = path / "rocksdict-config.json"
    try:
        raw = not config.exists() or json.loads(config.read_text())["raw_mode"]
    except (ValueError, KeyError, TypeError):
        # rocksdict rewrites this file in place, so a killed process may leave a part of it. The file is not needed.
        with suppress(OSError):  # on a read-only file system, where rocksdict opens links to the other files
            config.unlink()
        return
    if not raw:
        raise Corrupt(
            f"{path} was opened by a program that does not use rocksdict's raw mode",
            fix=f"Stop all programs that open it, then set raw_mode to true in {config.name}",
        )


def _exit_without_joining() -> None:
    """Make ``exit`` in the child of a fork skip RocksDB's cleanup, which joins threads that only the parent has.

    It would crash the child even if every database was closed before the fork.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # without it, children must exit with os._exit
        libc.on_exit(libc._exit, None)


os.register_at_fork(after_in_child=_exit_without_joining)
