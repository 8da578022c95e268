"""Pages as Arrow: the record batch shares the page's memory, nothing is copied."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import pyarrow as pa

_TIME = pa.timestamp("ms", tz="UTC")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("timestamp", _TIME), ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])
_BATCH_TIME = pa.timestamp("us", tz="UTC")

_NO_BYTES = pa.py_buffer(b"")  # Arrow takes no missing buffer where there are offsets

Part = tuple[pa.RecordBatch, int, int, int]
"""A page's record batch, the offset of its first message, and which of its messages are meant."""


def joined(parts: Sequence[Part], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return those of the named columns that pages have, one part behind the other."""
    made = {name: [_COLUMNS[name](*part) for part in parts] for name in names if name in _COLUMNS}
    return {name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays) for name, arrays in made.items()}


def _stored(name: str) -> Callable[[pa.RecordBatch, int, int, int], pa.Array]:
    return lambda batch, _, start, stop: batch.column(name).slice(start, stop - start)


def _times(batch: pa.RecordBatch, _: int, start: int, stop: int) -> pa.Array:
    return batch.column("timestamp").slice(start, stop - start).cast(_BATCH_TIME)


def _offsets(_: pa.RecordBatch, base: int, start: int, stop: int) -> pa.Array:
    return pa.Array.from_buffers(
        pa.int64(), stop - start, [None, pa.py_buffer(array("q", range(base + start, base + stop)))]
    )


_COLUMNS = {
    "key": _stored("key"),
    "value": _stored("value"),
    "headers": _stored("headers"),
    "timestamp": _times,
    "log_time": _times,
    "offset": _offsets,
}


def record_batch(count: int, buffers: Sequence[memoryview | None]) -> pa.RecordBatch:
    """Return the batch over the thirteen buffers of a page; None is a buffer of length 0."""
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    time = pa.Array.from_buffers(SCHEMA.field("timestamp").type, count, [None, held[0]])
    columns = [time, _binary(count, held[1:4]), _binary(count, held[4:7]), _headers(count, held[7:13])]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _binary(count: int, buffers: list[pa.Buffer | None]) -> pa.Array:
    validity, offsets, data = buffers
    if offsets is None:
        return pa.nulls(count, pa.binary())
    return pa.Array.from_buffers(pa.binary(), count, [validity, offsets, data or _NO_BYTES])


def _headers(count: int, buffers: list[pa.Buffer | None]) -> pa.Array:
    kind = SCHEMA.field("headers").type
    lists, name_offsets, name_data, *value_buffers = buffers
    if lists is None:
        nothing = pa.array([], kind.value_type)
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(bytes(4 * count + 4))], children=[nothing])
    total = memoryview(lists).cast("i")[count]
    names = pa.Array.from_buffers(pa.utf8(), total, [None, name_offsets, name_data or _NO_BYTES])
    pairs = pa.StructArray.from_arrays([names, _binary(total, value_buffers)], fields=list(kind.value_type))
    return pa.Array.from_buffers(kind, count, [None, lists], children=[pairs])
