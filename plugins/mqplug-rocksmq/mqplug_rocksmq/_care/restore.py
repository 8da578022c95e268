"""Restore of a backup as a new store."""

from __future__ import annotations

import shutil
from pathlib import Path

from mqplug import ConfigError, Corrupt
from mqplug_rocksmq._care.backup import appearing_directory
from mqplug_rocksmq._care.check import check_store
from mqplug_rocksmq._engine.directory import DATABASE, HAND_OUTS, IDENTITY, WITNESS, read_identity
from mqplug_rocksmq._engine.ownership import Ownership
from mqplug_rocksmq._engine.store_files import refuse_links


def restore_backup(backup: Path, path: Path) -> None:
    """Copy a backup to a path that does not exist, and check everything in it first."""
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
