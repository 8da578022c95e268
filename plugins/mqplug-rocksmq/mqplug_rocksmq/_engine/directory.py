"""The directory of a store: its file names, its identity, and whether this program may open it.

The file ``format`` is read before anything else is read or written. It marks the directory as a store, and holds the
store's format and id.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from mqplug import ConfigError, Corrupt, PluginError, StorageFull
from mqplug_rocksmq._engine.store_files import create_own, entries_of, expect_unshared, read_own, refuse_links
from mqplug_rocksmq._engine.witness import read_witness

STORE_FORMAT: Final = 3
_OLDEST_FORMAT: Final = 1  # opening a store of an older format upgrades it
DATABASE: Final = "rocksdb"
WITNESS: Final = "witness"
OWNER: Final = "owner"
MEMBERS: Final = "members"
IDENTITY: Final = "format"
REPAIRED: Final = "rocksdb.repaired"
PROBE: Final = "room"
BALLAST: Final = "ballast"
INODES: Final = "inodes"
STAGING: Final = "staging"
HAND_OUTS: Final = "hand_outs"
_OWN_NAMES: Final = {
    DATABASE, WITNESS, OWNER, MEMBERS, IDENTITY, f"{IDENTITY}.new", PROBE, BALLAST, INODES, STAGING, HAND_OUTS,
}  # fmt: skip
_MILVUS_SUFFIX: Final = "_meta_kv"  # Milvus keeps the metadata of its RocksMQ beside the messages
_MIN_FREE_BYTES: Final = 256 << 10
_MIN_FREE_INODES: Final = 32  # with the reserve


class Identity(NamedTuple):
    """The id and the format of a store."""

    id: str
    format: int = STORE_FORMAT

    @property
    def checksum(self) -> int:
        """The crc32c of both fields."""
        return int(crc32c(f"{self.format}:{self.id}".encode()))


def examine(path: Path, *, create: bool = True, named: bool = True) -> None:
    """Raise an error unless *path* is a store that this program can open or, with *create*, a place for a new one.

    Writes nothing. With *named* false, a store whose ``format`` file is damaged is accepted too.
    """
    there = _nearest_existing(path)
    if not there.is_dir():
        what = "a link to nothing" if there.is_symlink() else "a file"
        raise ConfigError(f"{there} is {what}; a store is a directory", fix="Name a directory, or one to create")
    held = set[str]()
    if there == path:
        expect_unshared(path)
        held = {entry.name for entry in entries_of(path)}
        for directory in (DATABASE, STAGING, INODES):
            refuse_links(path / directory)
    if not _has_name(path, sound=named) and DATABASE not in held:
        _expect_room(path, held, create=create)
        expect_space(there)
    elif DATABASE not in held and held & {WITNESS, REPAIRED}:
        raise _database_lost(path)


def _has_name(path: Path, *, sound: bool) -> bool:
    """Return whether a directory is marked as a store. With *sound*, raise ``Corrupt`` if the mark is damaged."""
    try:
        return read_identity(path) is not None
    except Corrupt:
        if sound:
            raise
        return True


def make_directory(path: Path) -> None:
    """Create the directory of a store for this user only, if it is missing."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _nearest_existing(path: Path) -> Path:
    """Return the path if it exists, or its nearest existing parent."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def expect_database(path: Path) -> None:
    """Raise ``Corrupt`` if the store has lost its database. RocksDB would silently create an empty one."""
    recorded = read_witness(path / WITNESS)
    if recorded is not None and recorded.changes > 0 and not (path / DATABASE / "CURRENT").exists():
        raise _database_lost(path)


def _database_lost(path: Path) -> Corrupt:
    return Corrupt(
        f"the store {path} has lost its database, or a repair of it did not finish",
        fix=f"Run mqplug rocksmq repair {path}, or restore a backup",
    )


def expect_space(path: Path) -> None:
    """Raise ``StorageFull`` if the disk has no space to open a store: RocksDB writes a little each time."""
    disk = os.statvfs(path)
    if disk.f_files and disk.f_favail < _MIN_FREE_INODES:
        raise StorageFull(
            f"the file system of {path} has less than {_MIN_FREE_INODES} inodes free for new files",
            fix="Remove files from it; df -i counts inodes",
        )
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES:
        raise StorageFull(f"the disk of {path} has less than {_MIN_FREE_BYTES >> 10} KiB free", fix="Free some space")


def _expect_room(path: Path, held: set[str], *, create: bool) -> None:
    whole = path.absolute()
    of_milvus = whole.parent / f"{whole.name}{_MILVUS_SUFFIX}"
    if of_milvus.is_dir():
        raise ConfigError(
            f"{path} belongs to Milvus' own RocksMQ, which also keeps {of_milvus}; it is no store of mqplug",
            fix=f"Name another directory, or copy its messages with mqplug rocksmq import-milvus {path} URL",
        )
    if not create:
        raise ConfigError(
            f"there is no store at {path}", fix="Check the path, or connect with create=true to create a store"
        )
    if held - _OWN_NAMES:
        raise ConfigError(
            f"the directory {path} is not a store and holds {len(held)} other entries, such as {min(held)!r}",
            fix="Name an empty directory, or one to create",
        )


def read_identity(path: Path) -> Identity | None:
    """Return the identity of a store, or None if it has none. Raise ``PluginError`` for a newer format."""
    try:
        said = json.loads(read_own(path / IDENTITY))
        identity = Identity(str(said["id"]), int(said["format"]))
        checksum = said.pop("checksum", None)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise _damaged(path, "is damaged") from None
    if checksum not in (None, identity.checksum):  # the first versions wrote none
        raise _damaged(path, "was modified after it was written")
    refuse_newer(path, identity.format)
    if len(said) > len(identity):
        raise _damaged(path, "has unknown fields")
    return identity


def _damaged(path: Path, how: str) -> Corrupt:
    return Corrupt(
        f"the file {path / IDENTITY}, which holds the store's id, {how}",
        fix=f"Run mqplug rocksmq repair {path} to restore the id from the database",
    )


def refuse_newer(path: Path, number: int) -> None:
    """Raise ``PluginError`` if a store has a format that this program does not know."""
    if not _OLDEST_FORMAT <= number <= STORE_FORMAT:
        raise PluginError(
            f"the store {path} has format {number}; this program knows the formats {_OLDEST_FORMAT} to {STORE_FORMAT}",
            fix="Update mqplug-rocksmq",
        )


def identify(path: Path, known: str | None = None) -> Identity:
    """Return the identity of a store, and write it if it is missing. Raise ``Corrupt`` if it differs from *known*."""
    identity = read_identity(path)
    if identity is None:
        identity = Identity(known or str(uuid.uuid4()))
        write_identity(path, identity)
    elif known is not None and identity.id != known:
        raise _damaged(path, f"has the id {identity.id}, but the database has {known}")
    return identity


def write_identity(path: Path, identity: Identity) -> None:
    """Write the identity of a store atomically."""
    fresh = path / f"{IDENTITY}.new"
    said = {**identity._asdict(), "checksum": identity.checksum}
    file = create_own(fresh)
    try:
        os.write(file, json.dumps(said, separators=(",", ":")).encode())
        os.fsync(file)
    finally:
        os.close(file)
    fresh.rename(path / IDENTITY)
