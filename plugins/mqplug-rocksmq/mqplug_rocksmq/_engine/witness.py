"""The witness: a record outside RocksDB of how many changes are certainly on disk.

RocksDB's recovery cannot distinguish a log that lost its end from a complete one. The witness can: it holds the number
of changes at the last sync. It also records whether the store was closed cleanly, and the boot id of the host. That
distinguishes the death of a process, which loses nothing, from the death of the host.
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
    """The witness's record, as the last opener of a store left it."""

    clean: bool
    cautious: bool  # readers saw only messages that were on disk
    changes: int
    boot: bytes

    @property
    def host_ended(self) -> bool:
        """Whether the host may have died or restarted since, losing file data that was only in its memory."""
        return self.boot != _boot_id() or not self.boot

    @property
    def host_died(self) -> bool:
        """Whether messages that readers saw may be lost, because they were not synced."""
        return not (self.clean or self.cautious) and self.host_ended


class Witness:
    """The open witness file of one store."""

    def __init__(self, path: Path, *, cautious: bool) -> None:
        self._cautious = cautious
        self._file = open_own(path, os.O_RDWR | os.O_CREAT)
        self._boot = _boot_id()

    def read(self) -> WitnessRecord | None:
        """Return the record of the last opener, or None if it is missing or damaged."""
        return _decoded(os.pread(self._file, _RECORD.size + _CRC.size, 0))

    def write(self, changes: int, *, clean: bool = False) -> None:
        """Record that *changes* changes are on disk. Call it only when they are."""
        flags = _CLEAN * clean | _CAUTIOUS * self._cautious
        record = _RECORD.pack(_MAGIC, flags, changes, self._boot)
        os.pwrite(self._file, record + _CRC.pack(crc32c(record)), 0)

    def close(self) -> None:
        """Sync the record to disk and close the file."""
        os.fsync(self._file)
        os.close(self._file)


def read_witness(path: Path) -> WitnessRecord | None:
    """Return the record in the witness file of a closed store, or None if it is missing or damaged."""
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
    """Return the boot id of the host, empty if there is none. Then every crash counts as the host's."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return b""
