"""Arrow arrays over the memory of a run. Imported on first use; needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, auto
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from mqplug_kafka_native import Run


class Section(IntEnum):
    """The sections of a run's memory, in the order in which the compiled part lays them out."""

    OFFSETS = 0
    TIMES = auto()
    KINDS = auto()
    KEY_BITS = auto()
    KEY_ENDS = auto()
    KEY_BYTES = auto()
    VALUE_BITS = auto()
    VALUE_ENDS = auto()
    VALUE_BYTES = auto()
    HEADER_ENDS = auto()
    NAME_ENDS = auto()
    NAME_BYTES = auto()
    CONTENT_BITS = auto()
    CONTENT_ENDS = auto()
    CONTENT_BYTES = auto()


_TIME = pa.timestamp("ms", tz="UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS = pa.list_(_HEADER)


def views(run: Run, names: Sequence[str]) -> Mapping[str, pa.Array]:
    """Return the named columns that a run has, as arrays."""
    memory = _Memory(run)
    rows = len(run)
    arrays: dict[str, pa.Array] = {}
    for name in names:
        match name:
            case "offset":
                arrays[name] = memory.array(pa.int64(), rows, None, Section.OFFSETS)
            case "timestamp" | "log_time":
                arrays[name] = memory.array(_TIME, rows, None, Section.TIMES)
            case "timestamp_type":
                arrays[name] = memory.array(pa.int32(), rows, None, Section.KINDS)
            case "key":
                arrays[name] = memory.array(pa.binary(), rows, Section.KEY_BITS, Section.KEY_ENDS, Section.KEY_BYTES)
            case "value":
                arrays[name] = memory.array(
                    pa.binary(), rows, Section.VALUE_BITS, Section.VALUE_ENDS, Section.VALUE_BYTES
                )
            case "headers" if memory.has_plain_names:  # else names may not be UTF-8, and the core makes the column
                arrays[name] = memory.headers(rows)
    return arrays


class _Memory:
    """The memory of a run, cut into its sections."""

    def __init__(self, run: Run) -> None:
        self._all = pa.py_buffer(run)
        self._starts, self._headers, self.has_plain_names = run.layout()

    def array(self, kind: pa.DataType, rows: int, *sections: Section | None) -> pa.Array:
        """Return an array of these sections."""
        return pa.Array.from_buffers(kind, rows, [self._section(each) for each in sections])

    def headers(self, rows: int) -> pa.Array:
        """Return the headers as lists of structs."""
        names = self.array(pa.string(), self._headers, None, Section.NAME_ENDS, Section.NAME_BYTES)
        contents = self.array(
            pa.binary(), self._headers, Section.CONTENT_BITS, Section.CONTENT_ENDS, Section.CONTENT_BYTES
        )
        pairs = pa.Array.from_buffers(_HEADER, self._headers, [None], children=[names, contents])
        return pa.Array.from_buffers(_HEADERS, rows, [None, self._section(Section.HEADER_ENDS)], children=[pairs])

    def _section(self, section: Section | None) -> pa.Buffer | None:
        if section is None:
            return None
        start = self._starts[section]
        return self._all.slice(start, self._starts[section + 1] - start)
