"""The errors of RocksDB, which have nothing but a text, as those of mqplug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mqplug import AccessDenied, AlreadyOpen, Closed, Corrupt, Error, StorageFull

_NO_ROOM: Final = ("No space left", "Disk quota exceeded", "File too large")


@contextmanager
def translated() -> Iterator[None]:
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
    if any(each in text for each in _NO_ROOM):
        return StorageFull("the disk of the store is full", fix="Free some space; sending goes on then")
    if "Permission denied" in text or "Read-only file system" in text:
        return AccessDenied(f"the files of the store cannot be written: {text}", fix="Check their permissions")
    if "LOCK" in text or "lock hold by current process" in text:
        return AlreadyOpen("another program holds the store's RocksDB", fix="Close it first")
    if "Corruption" in text or "checksum" in text:
        return Corrupt(f"RocksDB found damage: {text}", fix="Restore the store from a backup")
    return Error(f"RocksDB failed: {text}")
