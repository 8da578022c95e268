"""The records of RocksDB's write-ahead log and of its list of files, whose kinds are checked before RocksDB reads them.

RocksDB reads forever, with Python's lock held, if one flipped bit makes a record one of the kinds that only reused
log files have. No store reuses log files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from mqplug import Corrupt

_BLOCK_BYTES: Final = 32 << 10  # a record does not cross the end of a block
_HEADER: Final = Struct("<IHB")  # checksum, length, kind
_OF_REUSED_FILES: Final = {5, 6, 7, 8, 11, 131}
_NO_KIND: Final = 255  # of which RocksDB drops the record


def expect_readable_records(database: Path) -> None:
    """Raise ``Corrupt`` for a file that RocksDB would read forever."""
    for file in (*database.glob("*.log"), *database.glob("MANIFEST-*")):
        if file.stat().st_size > _HEADER.size and any(_endless(file.read_bytes())):
            raise Corrupt(
                f"the file {file} is damaged: it has a record of a kind that is never written",
                fix="Run mqplug rocksmq repair, or restore a backup",
            )


def readable_records(raw: bytes) -> bytes:
    """Return the content of a file with records that RocksDB drops instead of those that it would read forever."""
    readable = bytearray(raw)
    for at in _endless(raw):
        readable[at] = _NO_KIND
    return bytes(readable)


def _endless(raw: bytes) -> Iterator[int]:
    """Yield where the kinds of such records are."""
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
