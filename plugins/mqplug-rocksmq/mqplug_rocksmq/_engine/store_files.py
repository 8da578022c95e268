"""Safe opening of a store's own files, before anything reads or writes them.

Links and everything but regular files are refused. Otherwise a user who can write into the directory of a store could
make its owner write into any of the owner's files. The check is made on the opened file, so nothing can be swapped in
between.

The kinds of the records in RocksDB's write-ahead log and list of files are checked before RocksDB reads them. It loops
forever, holding the interpreter's lock, if a flipped bit turns a record into a kind that only recycled log files have.
No store recycles log files.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from mqplug import ConfigError, Corrupt
from mqplug_rocksmq._engine.errors import OUT_OF_FILES, out_of_files

_SAFE_FLAGS: Final = (
    os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
)  # O_NONBLOCK: opening a pipe returns at once instead of waiting
_MAX_READ_BYTES: Final = 64 << 10  # these files are small
_FILE_KINDS: Final = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip

_BLOCK_BYTES: Final = 32 << 10  # a record does not cross the end of a block
_HEADER: Final = Struct("<IHB")  # checksum, length, kind
_OF_REUSED_FILES: Final = {5, 6, 7, 8, 11, 131}
_NO_KIND: Final = 255  # RocksDB drops records of this kind


def open_own(path: Path, flags: int) -> int:
    """Open a file of a store and return its descriptor. Raise ``ConfigError`` unless it is a regular file."""
    try:
        descriptor = os.open(path, flags | _SAFE_FLAGS, 0o600)
    except OSError as error:
        raise _other_kind(path, error) from None
    try:
        _expect_own(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_own(path: Path) -> bytes:
    """Return the content of a file of a store."""
    descriptor = open_own(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _MAX_READ_BYTES)
    finally:
        os.close(descriptor)


def create_own(path: Path) -> int:
    """Create a file of a store and return its descriptor. A leftover is removed without being opened."""
    path.unlink(missing_ok=True)
    return open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def entries_of(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory of a store; an empty list if it is missing."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise (out_of_files(error) if error.errno in OUT_OF_FILES else error) from None


def expect_descriptors(wanted: int) -> None:
    """Raise an error unless this process can open *wanted* more files."""
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise out_of_files(error) from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def writable(directory: Path) -> bool:
    """Return whether this process can write into a directory. It cannot on a read-only file system."""
    return os.access(directory, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def refuse_links(directory: Path) -> None:
    """Raise ``ConfigError`` if a directory of a store is a link or contains one."""
    if directory.is_symlink():
        raise _refused(directory, "a link")
    for entry in entries_of(directory):
        if entry.is_symlink():
            raise _refused(Path(entry.path), "a link")


def expect_unshared(directory: Path) -> None:
    """Raise ``ConfigError`` if other users may write into a directory, and so replace its files."""
    found = directory.stat()
    mine = found.st_uid in (os.geteuid(), 0) or os.geteuid() == 0
    open_to_all = found.st_mode & stat.S_IWOTH
    open_to_some = found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid)
    if mine and not open_to_all and not open_to_some:
        return
    who = "belongs to another user" if not mine else f"can be written by {'all' if open_to_all else 'other'} users"
    raise ConfigError(
        f"the directory {directory} {who}, so others could make this program write into other files",
        fix="Run chmod go-w on it, or name a new directory inside it, which is created for this user only",
        backend="rocksmq",
    )


def _is_private(group: int, user: int) -> bool:
    """Return whether a group belongs to a single user, as many systems create by default."""
    try:
        found, name = grp.getgrgid(group), pwd.getpwuid(user).pw_name
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def _expect_own(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, _kind(found))
    if found.st_nlink > 1:
        raise _refused(path, "a link: the same file has another name")
    if found.st_uid not in (os.geteuid(), 0, path.parent.stat().st_uid):
        raise _refused(path, f"a file of another user ({found.st_uid})")


def _other_kind(path: Path, error: OSError) -> Exception:
    """Return the error for a path that cannot be opened because it is not a regular file, else *error* itself."""
    if error.errno in OUT_OF_FILES:
        return out_of_files(error)
    if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
        return error
    try:
        return _refused(path, _kind(path.lstat()))
    except OSError:
        return error


def _kind(found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "a link"
    return next((name for fits, name in _FILE_KINDS if fits(found.st_mode)), "not a file")


def _refused(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{path} is {what}; expected a regular file of the store",
        fix="Find out who put it there, then remove it",
        backend="rocksmq",
    )


def expect_readable_records(database: Path) -> None:
    """Raise ``Corrupt`` for a file that RocksDB would read forever."""
    for file in (*database.glob("*.log"), *database.glob("MANIFEST-*")):
        if file.stat().st_size > _HEADER.size and any(_endless(file.read_bytes())):
            raise Corrupt(
                f"the file {file} is damaged: it has a record of a kind that is never written",
                fix="Run mqplug rocksmq repair, or restore a backup",
            )


def readable_records(raw: bytes) -> bytes:
    """Return a file's content with the records that RocksDB would read forever changed into ones that it drops."""
    readable = bytearray(raw)
    for at in _endless(raw):
        readable[at] = _NO_KIND
    return bytes(readable)


def _endless(raw: bytes) -> Iterator[int]:
    """Yield the position of the kind of each record that RocksDB would read forever."""
    size, end, header, of_reused = _HEADER.size, len(raw), _HEADER.unpack_from, _OF_REUSED_FILES
    at = 0
    block = _BLOCK_BYTES
    while at + size <= end:
        _, length, kind = header(raw, at)
        if kind in of_reused:
            yield at + size - 1
        at += size + length
        if at + size > block or not kind:  # RocksDB drops the rest of a block with a record that does not fit
            at, block = block, block + _BLOCK_BYTES
