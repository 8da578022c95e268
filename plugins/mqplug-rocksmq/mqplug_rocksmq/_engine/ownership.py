"""Which process owns a store: the one that holds a lock on the store's own file ``owner``.

RocksDB's lock would not do: it is a POSIX lock, which is lost when its process closes any descriptor of that file,
as a copy of the directory does. This one is a ``flock``, taken before RocksDB opens, and only the owner holds the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from mqplug import AlreadyOpen, ConfigError
from mqplug_rocksmq._engine.directory import OWNER, make_directory
from mqplug_rocksmq._engine.store_files import open_own, read_own

_MAX_SOCKET_PATH_BYTES: Final = 100


class OwnerRecord(NamedTuple):
    """What the owner of a store writes into its file."""

    pid: int
    socket: str | None


class Ownership:
    """The right to open a store, held until ``release``."""

    def __init__(self, path: Path) -> None:
        make_directory(path)
        self._file = open_own(path / OWNER, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            owner = read_owner(path)
            who = f"process {owner.pid}" if owner else "another process"
            raise AlreadyOpen(f"the store {path} is owned by {who}", fix="Close it there", backend="rocksmq") from error
        self.announce(None)

    def announce(self, socket: Path | None) -> None:
        """Write down where other processes can ask the owner."""
        text = json.dumps({"pid": os.getpid(), "socket": None if socket is None else str(socket)}).encode()
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))

    def release(self) -> None:
        """Let another process own the store. In the child of a fork this only forgets the parent's right."""
        os.close(self._file)


def read_owner(path: Path) -> OwnerRecord | None:
    """Return what the present or last owner of a store wrote."""
    try:
        said = json.loads(read_own(path / OWNER))
        socket = said["socket"]
        return OwnerRecord(int(said["pid"]), None if socket is None else os.fsdecode(os.fsencode(socket)))
    except (OSError, ConfigError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def socket_path(store: Path) -> Path:
    """Return where the owner of a store listens: a short name, in a directory that only this user can enter."""
    name = hashlib.sha256(os.fsencode(store.resolve())).hexdigest()[:20]
    return _runtime_directory() / f"{name}.sock"


def _runtime_directory() -> Path:
    mine = f"mqplug-{os.getuid()}"
    candidates = [os.environ.get("XDG_RUNTIME_DIR"), f"{tempfile.gettempdir()}/{mine}", f"/var/tmp/{mine}"]  # noqa: S108
    for candidate in filter(None, candidates):
        path = Path(candidate)
        if len(candidate) + 26 < _MAX_SOCKET_PATH_BYTES and _private(path):
            return path
    raise PermissionError("no directory for sockets belongs to this user alone: set XDG_RUNTIME_DIR to one")


def _private(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == os.getuid() and not status.st_mode & 0o077
