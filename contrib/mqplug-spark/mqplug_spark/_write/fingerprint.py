"""What tells the rows of a task from others: their number, and a checksum of values and keys in any order."""

from __future__ import annotations

import re
from itertools import repeat
from typing import Final, Self
from zlib import crc32

import attrs
import pyarrow as pa

_TEXT: Final = re.compile(r"batch=(\d+) rows=(\d+) sum=([0-9a-f]+)", re.ASCII)


@attrs.define
class Fingerprint:
    """The rows of a task in one topic, for one number of its writer."""

    number: int
    rows: int = 0
    checksum: int = 0

    def add(self, columns: pa.RecordBatch) -> None:
        """Add rows."""
        values = [value or b"" for value in columns.column("value").to_pylist()]
        keys = repeat(b"") if "key" not in columns.schema.names else columns.column("key").to_pylist()
        starts = (0 if key is None else crc32(key, 1) for key in keys)
        self.rows += len(values)
        self.checksum = (self.checksum + sum(map(crc32, values, starts))) & 0xFFFF_FFFF_FFFF_FFFF

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the fingerprint that was written as this text; None for another text."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]), int(found[3], 16))

    def __str__(self) -> str:
        return f"batch={self.number} rows={self.rows} sum={self.checksum:x}"
