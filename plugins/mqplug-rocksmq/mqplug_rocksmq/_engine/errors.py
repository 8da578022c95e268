"""RocksDB's errors, which carry only a text, as errors of mqplug."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqplug import AccessDenied, AlreadyOpen, Closed, ConnectError, Corrupt, Error, StorageFull

CANCELLED: Final = "Shutdown in progress"
"""The beginning of RocksDB's error for cancelled background work."""
OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE)
_KINDS: Final = {
    errno.EACCES: AccessDenied, errno.EPERM: AccessDenied, errno.EROFS: AccessDenied,
    errno.ENOSPC: StorageFull, errno.EDQUOT: StorageFull,
}  # fmt: skip
_OUT_OF_FILES_TEXT: Final = "this process ran out of file descriptors"
_CIRCUMSTANCES: Final = (AccessDenied, AlreadyOpen, ConnectError, StorageFull)
_DISK_FULL_TEXTS: Final = ("No space left", "Disk quota exceeded", "File too large")


class WritesStopped(StorageFull):
    """RocksDB accepts no writes until its background threads have moved earlier ones to tables. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("RocksDB accepts no writes at the moment", fix="Check the disk of the store, then try again")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate RocksDB's errors into mqplug's errors."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise translate(error) from error


def translate(error: Exception) -> Error:
    """Return the typed error for a RocksDB error, chosen by its text."""
    text = str(error)
    if type(error).__name__ == "DbClosedError":
        return Closed("the store is closed")
    if text.startswith("Result incomplete"):
        return WritesStopped()
    if any(each in text for each in _DISK_FULL_TEXTS):
        return disk_full()
    if "Permission denied" in text or "Read-only file system" in text:
        return AccessDenied(f"the files of the store are not writable: {text}", fix="Check their permissions")
    if "No such file or directory" in text:
        return Corrupt(f"a database file is missing: {text}", fix="Run mqplug rocksmq repair, or restore a backup")
    if "Too many open files" in text:
        return out_of_files(error)
    if "While lock file" in text and "No locks available" in text:
        return cannot_lock(text)
    if "While lock file" in text or "lock hold by current process" in text:
        return AlreadyOpen("another program has the store's RocksDB open", fix="Close it there first")
    if text.startswith("Corruption"):
        return Corrupt(f"RocksDB found damage: {text}", fix="Run mqplug rocksmq repair, or restore a backup")
    return Error(f"RocksDB failed: {text}")


def may_be_damage(error: Error) -> bool:
    """Return whether damaged files may have caused an error, rather than permissions, limits or a full disk."""
    return not (isinstance(error, _CIRCUMSTANCES) or error.message.startswith(_OUT_OF_FILES_TEXT))


def out_of_files(error: Exception) -> Error:
    """Return the error for a process that has reached its limit of open files."""
    return Error(
        f"{_OUT_OF_FILES_TEXT}: {error}",
        fix="Raise its limit (ulimit -n), or close files that it does not need",
        backend="rocksmq",
    )


def cannot_lock(reason: object) -> ConnectError:
    """Return the error for a file system that does not lock files."""
    return ConnectError(
        f"the file system of the store does not lock files: {reason}",
        fix="Use a local file system; on NFS, start its lock service",
        backend="rocksmq",
        retryable=False,
    )


def cannot_open(path: Path, error: OSError) -> Error:
    """Return the error for a store that the operating system refuses to open."""
    if error.errno in OUT_OF_FILES:
        return out_of_files(error)
    where = "" if error.filename is None else f": {error.filename}"
    reason = f"the store {path} cannot be opened: {error.strerror}{where}"
    kind = _KINDS.get(error.errno or 0, ConnectError)
    return kind(reason, fix="Check the path, its permissions and the free disk space", backend="rocksmq")


def disk_full() -> StorageFull:
    """Return the error for a full disk."""
    return StorageFull("the disk of the store is full", fix="Free some space on it, or trim or delete topics")
