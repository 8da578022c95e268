"""The errors of RocksDB, which have nothing but a text, as those of mqplug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mqplug import AccessDenied, AlreadyOpen, Closed, Corrupt, Error, StorageFull

_DISK_FULL_TEXTS: Final = ("No space left", "Disk quota exceeded", "File too large")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the errors of RocksDB, which have nothing but a text, into those of mqplug."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise translate(error) from error


def translate(error: Exception) -> Error:
    """Return the typed error for one of RocksDB's."""
    text = str(error)
    if type(error).__name__ == "DbClosedError":
        return Closed("the store is closed")
    if any(each in text for each in _DISK_FULL_TEXTS):
        return disk_full()
    if "Permission denied" in text or "Read-only file system" in text:
        return AccessDenied(f"the files of the store cannot be written: {text}", fix="Check their permissions")
    if "Too many open files" in text:
        return Error(f"RocksDB may open no more files: {text}", fix="Raise the limit of the process (ulimit -n)")
    if "While lock file" in text or "lock hold by current process" in text:
        return AlreadyOpen("another program holds the store's RocksDB", fix="Close it first")
    if text.startswith("Corruption"):
        return Corrupt(f"RocksDB found damage: {text}", fix="Run mqplug rocksmq repair, or restore a backup")
    return Error(f"RocksDB failed: {text}")


def disk_full() -> StorageFull:
    """Return what says that there is no room."""
    return StorageFull("the disk of the store is full", fix="Free some space on it, or trim or delete topics")
