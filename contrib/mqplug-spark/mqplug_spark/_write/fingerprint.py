"""What tells the rows of a task from others: their number, and a checksum of all that is sent, in any order."""

from __future__ import annotations

from itertools import repeat
from typing import Final
from zlib import crc32

import attrs
import pyarrow as pa
import pyarrow.compute as pc

_NULL: Final = b"\0mqplug null\xff"  # stands for None, which is not empty
_MASK: Final = 0xFFFF_FFFF


@attrs.define
class Fingerprint:
    """The rows of a task, in all topics."""

    rows: int = 0
    checksum: int = 0

    def add(self, topic: str, columns: pa.RecordBatch) -> None:
        """Add rows."""
        sums = [crc32(topic.encode())] * len(columns)
        for name in ("partition", "timestamp"):
            if name in columns.schema.names:
                numbers = pc.fill_null(columns.column(name).cast(pa.int64()), -1).to_pylist()
                sums = [(each * 0x9E37_79B1 + number) & _MASK for each, number in zip(sums, numbers, strict=True)]
        for name in ("key", "value"):
            texts = _texts(columns, name)
            sums = list(map(crc32, texts, map(_with_length, sums, map(len, texts))))
        if "headers" in columns.schema.names:
            headers = columns.column("headers").to_pylist()
            sums = [crc32(repr(each or []).encode(), start) for each, start in zip(headers, sums, strict=True)]
        self.rows += len(columns)
        self.checksum = (self.checksum + sum(sums)) & 0xFFFF_FFFF_FFFF_FFFF


def _texts(columns: pa.RecordBatch, name: str) -> list[bytes]:
    if name not in columns.schema.names:
        return list(repeat(_NULL, len(columns)))
    column = columns.column(name)
    filled = pc.fill_null(column, _NULL) if column.null_count else column
    texts: list[bytes] = filled.to_pylist()
    return texts


def _with_length(start: int, length: int) -> int:
    return start ^ length
