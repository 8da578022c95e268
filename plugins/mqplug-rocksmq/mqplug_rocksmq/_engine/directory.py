"""The directory of a store: what lies in it, and whether it is one that this program may open.

The file ``format`` is read before anything else, and before anything is written: it says that the directory is a
store, in which format, and which one.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from mqplug import ConfigError, Corrupt, PluginError, StorageFull
from mqplug_rocksmq._engine.store_files import create_own, expect_unshared, read_own, refuse_links
from mqplug_rocksmq._engine.witness import read_witness

STORE_FORMAT: Final = 1
DATABASE: Final = "rocksdb"
WITNESS: Final = "witness"
OWNER: Final = "owner"
MEMBERS: Final = "members"
IDENTITY: Final = "format"
REPAIRED: Final = "rocksdb.repaired"
PROBE: Final = "room"
BALLAST: Final = "ballast"
STAGING: Final = "staging"
_OWN_NAMES: Final = {DATABASE, WITNESS, OWNER, MEMBERS, IDENTITY, f"{IDENTITY}.new", PROBE, BALLAST, STAGING}
_MIN_FREE_BYTES: Final = 256 << 10


class Identity(NamedTuple):
    """What tells a store from all others."""

    id: str
    format: int = STORE_FORMAT

    @property
    def checksum(self) -> int:
        """The crc32c of both."""
        return int(crc32c(f"{self.format}:{self.id}".encode()))


def examine(path: Path, *, create: bool = True, named: bool = True) -> None:
    """Raise unless there is a store that this program can open, or, to *create* one, room for it. Writes nothing.

    Unless it has to be *named*, a store whose own file is damaged is one as well.
    """
    there = _nearest_existing(path)
    if not there.is_dir():
        what = "a link to nothing" if there.is_symlink() else "a file"
        raise ConfigError(f"{there} is {what}, and a store is a directory", fix="Name a directory, or a new one")
    held = set[str]()
    if there == path:
        expect_unshared(path)
        held = {entry.name for entry in os.scandir(path)}
        for directory in (DATABASE, STAGING):
            refuse_links(path / directory)
    if not _has_name(path, sound=named) and DATABASE not in held:
        _expect_room(path, held, create=create)
        expect_space(there)
    elif DATABASE not in held and held & {WITNESS, REPAIRED}:
        raise _database_lost(path)


def _has_name(path: Path, *, sound: bool) -> bool:
    """Whether a directory says that it is a store; ``Corrupt`` where that is damaged, and has to be *sound*."""
    try:
        return read_identity(path) is not None
    except Corrupt:
        if sound:
            raise
        return True


def make_directory(path: Path) -> None:
    """Make the directory of a store, where it is missing, for this user alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _nearest_existing(path: Path) -> Path:
    """Return what is there of a path: it, or the nearest of those above it."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def expect_database(path: Path) -> None:
    """Raise if there was a database once, and is none: RocksDB would make another one, and say nothing."""
    recorded = read_witness(path / WITNESS)
    if recorded is not None and recorded.changes > 0 and not (path / DATABASE / "CURRENT").exists():
        raise _database_lost(path)


def _database_lost(path: Path) -> Corrupt:
    return Corrupt(
        f"the store {path} has lost its database, or was left in the midst of a repair",
        fix=f"Run mqplug rocksmq repair {path}, or restore a backup",
    )


def expect_space(path: Path) -> None:
    """Raise if the disk has no room to open a store: RocksDB writes a little each time."""
    disk = os.statvfs(path)
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES:
        raise StorageFull(f"the disk of {path} has less than {_MIN_FREE_BYTES >> 10} KiB left", fix="Free some space")


def _expect_room(path: Path, held: set[str], *, create: bool) -> None:
    if not create:
        raise ConfigError(
            f"there is no store at {path}", fix="Check the path; a program that connects with create=true makes one"
        )
    if held - _OWN_NAMES:
        raise ConfigError(
            f"the directory {path} holds no store, but {len(held)} other things, such as {min(held)!r}",
            fix="Name an empty directory, or a new one",
        )


def read_identity(path: Path) -> Identity | None:
    """Return what the store says it is, or None where it says nothing; refuse a newer format."""
    try:
        said = json.loads(read_own(path / IDENTITY))
        identity = Identity(str(said["id"]), int(said["format"]))
        checksum = said.pop("checksum", None)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise _damaged(path, "is damaged") from None
    if checksum not in (None, identity.checksum):  # the first versions wrote none
        raise _damaged(path, "was changed after it was written")
    refuse_newer(path, identity.format)
    if len(said) > len(identity):
        raise _damaged(path, "says more than this program knows")
    return identity


def _damaged(path: Path, how: str) -> Corrupt:
    return Corrupt(
        f"the file {path / IDENTITY}, which names the store, {how}",
        fix=f"Run mqplug rocksmq repair {path}: the database knows the name, too",
    )


def refuse_newer(path: Path, number: int) -> None:
    """Raise if a store has a format that only a newer program knows."""
    if number != STORE_FORMAT:
        raise PluginError(
            f"the store {path} has format {number}, and this program knows format {STORE_FORMAT}",
            fix="Update mqplug-rocksmq",
        )


def identify(path: Path, known: str | None = None) -> Identity:
    """Return what the store is, and write it down where that was not done yet; ``Corrupt`` if it is *known* better."""
    identity = read_identity(path)
    if identity is None:
        identity = Identity(known or str(uuid.uuid4()))
        write_identity(path, identity)
    elif known is not None and identity.id != known:
        raise _damaged(path, f"says {identity.id}, and the database says {known}")
    return identity


def write_identity(path: Path, identity: Identity) -> None:
    """Write down what a store is, all at once."""
    fresh = path / f"{IDENTITY}.new"
    said = {**identity._asdict(), "checksum": identity.checksum}
    file = create_own(fresh)
    try:
        os.write(file, json.dumps(said, separators=(",", ":")).encode())
        os.fsync(file)
    finally:
        os.close(file)
    fresh.rename(path / IDENTITY)
