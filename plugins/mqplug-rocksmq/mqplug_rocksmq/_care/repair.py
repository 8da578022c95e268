"""Repair of a store: copies everything sound into a new database, which replaces the damaged one.

The damaged database is only read. By default it is kept beside the new one, in a directory that is itself a store.
The store does not change until the new database is complete and on disk. If the program dies between the two renames
that replace it, the next repair completes them.

If CURRENT or MANIFEST is damaged, RocksDB's list of its files is restored: the tables and the log are still complete.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import attrs

from mqplug import Corrupt, Error
from mqplug_rocksmq._care.check import check_journal, check_name, inspect_directory, open_leniently, survey_pages
from mqplug_rocksmq._care.damage import SurveyReport
from mqplug_rocksmq._care.page_chain import PageChain
from mqplug_rocksmq._care.small_values import SmallValues
from mqplug_rocksmq._engine.directory import (
    DATABASE,
    HAND_OUTS,
    IDENTITY,
    REPAIRED,
    STORE_FORMAT,
    WITNESS,
    Identity,
    read_identity,
    write_identity,
)
from mqplug_rocksmq._engine.ownership import Ownership
from mqplug_rocksmq._engine.rocks import Pages, rebuild_database
from mqplug_rocksmq._engine.store_files import readable_records
from mqplug_rocksmq._engine.tuning import Tuning
from mqplug_rocksmq._engine.witness import Witness
from mqplug_rocksmq._format.keys import (
    CHANGES,
    COUNTER,
    STORE,
    StoredPosition,
    count_value,
    group_key,
    json_value,
    log_key,
    log_value,
    mark_key,
    mark_value,
    position_value,
    read_count,
    topic_key,
)

_BUILDING: Final = "rocksdb.building"
_WORKING: Final = "rocksdb.working"
_WRITE_BYTES: Final = 4 << 20
_ORDERS: Final = (("data", "meta"), ("meta", "data"))
_FAMILY: Final = re.compile(r'\[CFOptions "(data|meta)"\]')


@attrs.frozen
class RepairResult:
    """The result of a repair: its findings, and the directory of the damaged store (None: not kept)."""

    report: SurveyReport
    damaged: Path | None = None


def repair_store(path: Path, *, backup: bool = True) -> RepairResult:
    """Repair a store, unless it is sound. Raise ``AlreadyOpen`` if a process has it open."""
    ownership = Ownership(path)
    try:
        if not (path / DATABASE).exists() and (path / REPAIRED).exists():
            _swap_databases(path, None)
        report = inspect_directory(path)
        done = RepairResult(report) if report.sound else _rebuild(path, backup=backup)
        _repair_name(path, done.report)
        _repair_journal(path, done.report)
        return done
    finally:
        ownership.release()


def _repair_name(path: Path, report: SurveyReport) -> None:
    """Write the id in the database to the file ``format``, if they differ."""
    found = len(report.findings)
    check_name(path, report)
    if len(report.findings) > found and report.store is not None:
        write_identity(path, Identity(report.store))


def _repair_journal(path: Path, report: SurveyReport) -> None:
    """Remove a damaged journal of hand-outs. The attempts noted only in it are lost."""
    found = len(report.findings)
    check_journal(path, report)
    if len(report.findings) > found:
        (path / HAND_OUTS).unlink()


def _rebuild(path: Path, *, backup: bool) -> RepairResult:
    for leftover in (_BUILDING, _WORKING, REPAIRED):
        shutil.rmtree(path / leftover, ignore_errors=True)
    report = SurveyReport()
    try:
        source = _open_damaged(path, report)
        _copy_sound(path, source, report)
    except BaseException:
        for unfinished in (_BUILDING, _WORKING):
            shutil.rmtree(path / unfinished, ignore_errors=True)
        raise
    (path / _BUILDING).rename(path / REPAIRED)
    damaged = next(each for number in count(1) if not (each := path / f"damaged-{number}").exists())
    _swap_databases(path, damaged)
    shutil.rmtree(path / _WORKING, ignore_errors=True)
    if not backup:
        shutil.rmtree(damaged)
    return RepairResult(report, damaged if backup else None)


def _copy_sound(path: Path, source: Pages, report: SurveyReport) -> None:
    rebuilt = _NewDatabase(path)
    try:
        survey_pages(path, source, report, rebuilt)
        rebuilt.finish()
    except BaseException:
        rebuilt.close()
        raise


def _open_damaged(path: Path, report: SurveyReport) -> Pages:
    """Open the damaged database. If that fails, restore RocksDB's list of files in a copy."""
    try:
        return open_leniently(path / DATABASE, report)
    except Error as error:
        report.add(f"it cannot be opened without its write-ahead log either: {error.message}")
    return open_without_list(path / DATABASE, path / _WORKING)


def _swap_databases(path: Path, damaged: Path | None) -> None:
    """Replace the database with the new one. The old one moves to *damaged*, with its witness and identity."""
    if damaged is not None:
        damaged.mkdir()
        for name in (WITNESS, IDENTITY):
            if (path / name).exists():
                shutil.copy2(path / name, damaged / name)
        (path / DATABASE).rename(damaged / DATABASE)
    (path / REPAIRED).rename(path / DATABASE)
    directory = os.open(path, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    pages = Pages(path / DATABASE, read_only=True)
    changes = read_count(pages.get(CHANGES))
    pages.close()
    witness = Witness(path / WITNESS, cautious=False)
    witness.write(changes, clean=True)
    witness.close()


def _name_of(path: Path) -> str:
    """Return the id in the file ``format``, or a new one if it is missing or damaged."""
    try:
        identity = read_identity(path)
    except Corrupt:
        identity = None
    return identity.id if identity else str(uuid.uuid4())


class _NewDatabase:
    """The new database, which receives all sound data."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pages = Pages(path / _BUILDING)
        self._changes = self._pages.changes()
        self._held = 0

    def page(self, log: int, base: int, raw: bytes) -> None:
        self._changes.put_page(log, base, raw)
        self._hold(len(raw))

    def log(self, log: int, chain: PageChain) -> None:
        self._changes.put(log_key(log), log_value(chain.record))
        for mark in chain.marks:
            self._changes.put(mark_key(log, mark.time, mark.base), mark_value(mark))
        self._hold(100)

    def place(self, log: int, group: str, place: StoredPosition) -> None:
        self._changes.put(group_key(log, group), position_value(place))
        self._hold(100)

    def rest(self, contents: SmallValues) -> None:
        put = self._changes.put
        for topic in contents.topics.values():
            self._changes.put_copied(topic_key(topic.name), topic.value)
        for key, value in contents.other.items():
            put(key, value)
        contents.store = contents.store or _name_of(self._path)
        put(STORE, json_value({"format": STORE_FORMAT, "id": contents.store}))
        put(
            COUNTER,
            count_value(max([contents.counter, *(number + 1 for number in (*contents.records, *contents.segments))])),
        )
        put(CHANGES, count_value(contents.changes + 1))

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        changes, self._changes, self._held = self._changes, self._pages.changes(), 0
        self._pages.write(changes)

    def finish(self) -> None:
        """Write and sync everything, then close."""
        self._write()
        self._pages.flush()
        self._pages.sync()
        self.close()

    def close(self) -> None:
        self._pages.close()


def open_without_list(database: Path, working: Path) -> Pages:
    """Open a copy of a database for reading, in *working*, with a restored list of its files.

    Raise the last error if nothing can be restored.
    """
    manifests = list(database.glob("MANIFEST-*"))
    if len(manifests) == 1:  # of several, the newest may be incomplete
        _copy_database(database, working)
        (working / "CURRENT").write_text(f"{manifests[0].name}\n")
        with suppress(Error):
            return _open_copy(working)
    *others, last = _family_orders(database)
    for order in others:
        with suppress(Error):
            pages = _rebuilt(database, working, order)
            if pages.get(STORE) is not None:
                return pages
            pages.close()
    return _rebuilt(database, working, last)


def _rebuilt(database: Path, working: Path, order: tuple[str, ...]) -> Pages:
    _copy_database(database, working)
    rebuild_database(working, order)
    return _open_copy(working)


def _open_copy(working: Path) -> Pages:
    return Pages(working, Tuning(), "lenient", read_only=True)


def _family_orders(database: Path) -> Sequence[tuple[str, ...]]:
    """Return the order in which the column families were created, or all possible orders if none is recorded."""
    recorded = {tuple(_FAMILY.findall(file.read_text(errors="replace"))) for file in database.glob("OPTIONS-*")}
    return [order for order in _ORDERS if order in recorded] or _ORDERS


def _copy_database(database: Path, working: Path) -> None:
    """Copy a database, with links to its tables, which never change."""
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir()
    for file in database.iterdir():
        if file.suffix == ".sst":
            os.link(file, working / file.name)
        elif file.suffix == ".log" or file.name.startswith("MANIFEST-"):
            (working / file.name).write_bytes(readable_records(file.read_bytes()))
        elif file.is_file():
            shutil.copy2(file, working / file.name)
