"""The witness: a record, outside RocksDB, of how much was on disk for certain.

RocksDB's recovery cannot tell a log that lost its end from one that never had more. The witness can: it holds the
number of changes at the last sync. It also says whether the store was closed cleanly, and in which boot of the host it
was last open, which tells the death of a process (after which nothing is lost) from that of the host.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from mqplug_rocksmq._engine.store_files import open_own, read_own

_RECORD: Final = Struct("<4sIQ36s")
_CRC: Final = Struct("<I")
_MAGIC: Final = b"MQW1"
_CLEAN: Final = 1
_CAUTIOUS: Final = 2
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class WitnessRecord(NamedTuple):
    """What the last opener of a store left behind."""

    clean: bool
    cautious: bool  # nothing was shown before it was on disk
    changes: int
    boot: bytes

    @property
    def host_died(self) -> bool:
        """Whether what was shown, and not synced, may be gone."""
        return not (self.clean or self.cautious) and (self.boot != _boot_id() or not self.boot)


class Witness:
    """The open record of one store."""

    def __init__(self, path: Path, *, cautious: bool) -> None:
        self._cautious = cautious
        self._file = open_own(path, os.O_RDWR | os.O_CREAT)
        self._boot = _boot_id()

    def read(self) -> WitnessRecord | None:
        """Return what the last opener wrote, or None where nothing can be read."""
        return _decoded(os.pread(self._file, _RECORD.size + _CRC.size, 0))

    def write(self, changes: int, *, clean: bool = False) -> None:
        """Record that so many changes are on disk; to be called only when they are."""
        flags = _CLEAN * clean | _CAUTIOUS * self._cautious
        record = _RECORD.pack(_MAGIC, flags, changes, self._boot)
        os.pwrite(self._file, record + _CRC.pack(crc32c(record)), 0)

    def close(self) -> None:
        """Put the record itself on disk and close it."""
        os.fsync(self._file)
        os.close(self._file)


def read_witness(path: Path) -> WitnessRecord | None:
    """Return what the last opener of a store that nobody has open left in this file."""
    try:
        return _decoded(read_own(path))
    except OSError:
        return None


def _decoded(raw: bytes) -> WitnessRecord | None:
    try:
        magic, flags, changes, boot = _RECORD.unpack_from(raw)
        (checksum,) = _CRC.unpack_from(raw, _RECORD.size)
    except struct.error:
        return None
    if magic != _MAGIC or checksum != crc32c(raw[: _RECORD.size]):
        return None
    return WitnessRecord(bool(flags & _CLEAN), bool(flags & _CAUTIOUS), changes, boot.rstrip(b"\0"))


def _boot_id() -> bytes:
    """Return what names this boot of the host; empty where nothing does, and then every crash counts as the host's."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return b""
