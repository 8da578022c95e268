"""Ownership of a store: held by the process that has locked the store's file ``owner``.

RocksDB's own lock is not enough: it is a POSIX lock, which a process loses when it closes any descriptor of that file,
for instance while it copies the directory. This one is a ``flock``, taken before RocksDB opens, on a file that only the
owner holds open.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mqplug import AlreadyOpen, ConfigError, Error
from mqplug_rocksmq._engine.directory import OWNER, make_directory
from mqplug_rocksmq._engine.errors import cannot_lock, cannot_open
from mqplug_rocksmq._engine.store_files import open_own, read_own, writable

_MAX_SOCKET_PATH_BYTES: Final = 100


class OwnerRecord(NamedTuple):
    """The content of the file ``owner``: the process, and the socket it listens on."""

    pid: int
    socket: str | None


class Ownership:
    """The right to open a store, held until ``release``.

    With *reading*, a store on a read-only file system can be held too. Without an owner file, it has no owner.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self._readable_only = reading and not writable(path)
        try:
            self._file = self._open(path)
        except Error:
            raise
        except OSError as error:
            raise cannot_open(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise cannot_lock(error) from error
            owner = read_owner(path)
            who = f"process {owner.pid}" if owner else "another process"
            raise AlreadyOpen(f"the store {path} is owned by {who}", fix="Close it there", backend="rocksmq") from error
        if not self._readable_only:
            self.announce(None)

    def _open(self, path: Path) -> int:
        if self._readable_only:
            with suppress(FileNotFoundError):
                return open_own(path / OWNER, os.O_RDONLY)
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        make_directory(path)
        return open_own(path / OWNER, os.O_RDWR | os.O_CREAT)

    def announce(self, socket: Path | None) -> None:
        """Record the socket at which other processes reach the owner."""
        text = json.dumps({"pid": os.getpid(), "socket": None if socket is None else str(socket)}).encode()
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))

    def release(self) -> None:
        """Release the store to other processes. In the child of a fork, the parent keeps its ownership."""
        os.close(self._file)


def read_owner(path: Path) -> OwnerRecord | None:
    """Return the record of the current or last owner of a store, or None without one."""
    try:
        said = json.loads(read_own(path / OWNER))
        socket = said["socket"]
        return OwnerRecord(int(said["pid"]), None if socket is None else os.fsdecode(os.fsencode(socket)))
    except (OSError, ConfigError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def socket_path(store: Path) -> Path:
    """Return the socket path of a store's owner: a short name in a directory that only this user can enter."""
    name = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:20]
    return _runtime_directory() / f"{name}.sock"


def _runtime_directory() -> Path:
    mine = f"mqplug-{os.getuid()}"
    candidates = [os.environ.get("XDG_RUNTIME_DIR"), f"{tempfile.gettempdir()}/{mine}", f"/var/tmp/{mine}"]  # noqa: S108
    for candidate in filter(None, candidates):
        path = Path(candidate)
        if len(candidate) + 26 < _MAX_SOCKET_PATH_BYTES and _private(path):
            return path
    raise PermissionError("no directory for sockets is private to this user: set XDG_RUNTIME_DIR to one")


def _private(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o077
