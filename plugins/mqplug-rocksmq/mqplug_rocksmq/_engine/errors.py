"""RocksDB's errors, which carry only a text, as errors of mqplug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mqplug import AccessDenied, AlreadyOpen, Closed, Corrupt, Error, StorageFull

CANCELLED: Final = "Shutdown in progress"
"""How RocksDB's error begins for background work that was cancelled."""
_DISK_FULL_TEXTS: Final = ("No space left", "Disk quota exceeded", "File too large")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate RocksDB's errors into those of mqplug."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise translate(error) from error


def translate(error: Exception) -> Error:
    """Return the typed error for an error of RocksDB, by its text."""
    text = str(error)
    if type(error).__name__ == "DbClosedError":
        return Closed("the store is closed")
    if any(each in text for each in _DISK_FULL_TEXTS):
        return disk_full()
    if "Permission denied" in text or "Read-only file system" in text:
        return AccessDenied(f"the files of the store are not writable: {text}", fix="Check their permissions")
    if "No such file or directory" in text:
        return Corrupt(f"the database lacks a file: {text}", fix="Run mqplug rocksmq repair, or restore a backup")
    if "Too many open files" in text:
        return Error(f"RocksDB ran out of file descriptors: {text}", fix="Raise the limit of the process (ulimit -n)")
    if "While lock file" in text or "lock hold by current process" in text:
        return AlreadyOpen("another program has the store's RocksDB open", fix="Close it there first")
    if text.startswith("Corruption"):
        return Corrupt(f"RocksDB found damage: {text}", fix="Run mqplug rocksmq repair, or restore a backup")
    return Error(f"RocksDB failed: {text}")


def disk_full() -> StorageFull:
    """Return the error for a full disk."""
    return StorageFull("the disk of the store is full", fix="Free some space on it, or trim or delete topics")
