"""Backups: a copy of a store as it is at one instant, while it is written to, and its restore as a new store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqplug import ConfigError, Corrupt
from mqplug_rocksmq._care.check import check_store
from mqplug_rocksmq._engine.directory import (
    DATABASE,
    HAND_OUTS,
    IDENTITY,
    WITNESS,
    Identity,
    read_identity,
    write_identity,
)
from mqplug_rocksmq._engine.ownership import Ownership
from mqplug_rocksmq._engine.store_files import refuse_links
from mqplug_rocksmq._engine.witness import Witness
from mqplug_rocksmq._store.store import Store


def back_up_store(store: Store, to: Path) -> None:
    """Copy an open store. Table files become hard links where possible, which takes little time and space."""
    engine = store.engine
    with appearing_directory(to) as building:
        store.journal.fold()
        with engine.maintaining:
            engine.pages.flush()  # so that little is left to do under the lock
        with engine.lock:
            engine.check()
            engine.pages.checkpoint(building / DATABASE)
            changes = engine.durability.changes
        _describe(building, Identity(store.id), changes)


@contextmanager
def appearing_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill, which is renamed to this path at the end, so that it appears whole or not at all."""
    if path.is_symlink() and not path.exists():
        raise ConfigError(f"{path} is a link to nothing", fix="Name a directory to create")
    path = path.resolve()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"{path} already exists and is not an empty directory", fix="Name a path that does not exist")
    building = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    building.mkdir(mode=0o700)
    try:
        yield building
        _put_on_disk(building)
        building.rename(path)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _describe(path: Path, identity: Identity, changes: int) -> None:
    """Write the files that RocksDB does not write."""
    write_identity(path, identity)
    witness = Witness(path / WITNESS, cautious=False)
    witness.write(changes, clean=True)
    witness.close()


def _put_on_disk(path: Path) -> None:
    for name in (*path.rglob("*"), path):
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def restore_backup(backup: Path, path: Path) -> None:
    """Copy a backup to a new path, which appears once everything in the copy is checked."""
    if not (backup / DATABASE).is_dir() or read_identity(backup) is None:
        raise ConfigError(f"{backup} is not a backup", fix="Name a directory that mqplug rocksmq backup created")
    for directory in (backup, backup / DATABASE):
        refuse_links(directory.resolve() if directory == backup else directory)
    with appearing_directory(path) as building:
        ownership = Ownership(backup, reading=True)
        try:
            for name in (DATABASE, WITNESS, IDENTITY):
                _copy(backup / name, building / name)
            if (backup / HAND_OUTS).exists():  # of a store that was not closed
                _copy(backup / HAND_OUTS, building / HAND_OUTS)
        finally:
            ownership.release()
        report = check_store(building)
        if not report.sound:
            raise Corrupt(
                f"the backup {backup} is damaged: {report.findings[0].what}",
                fix="Use another backup, or repair a copy of this one with mqplug rocksmq repair",
            )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)
