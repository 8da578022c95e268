"""Arrow arrays over the columns of the compiled part, without a copy. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from mqplug_pulsar_native import HUGE_TIME, NO_KEY, NULL_VALUE, ODD_HEADERS, ODD_KEY, Rows

_TIME = pa.timestamp("ms", tz="UTC")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrays(rows: Rows, names: Sequence[str]) -> Mapping[str, pa.Array]:
    """Return the named columns as arrays, except those that need Python code for each row."""
    made = {name: _MAKERS[name](rows) for name in names if name in _MAKERS}
    return {name: array for name, array in made.items() if array is not None}


def _values(rows: Rows) -> pa.Array:
    return _texts(rows, "value", len(rows), pa.binary(), rows.without(NULL_VALUE))


def _keys(rows: Rows) -> pa.Array | None:
    return None if rows.any & ODD_KEY else _texts(rows, "key", len(rows), pa.binary(), rows.without(NO_KEY))


def _headers(rows: Rows) -> pa.Array | None:
    if rows.any & ODD_HEADERS:
        return None
    offsets = pa.py_buffer(rows.buffer("header_offsets"))
    count = memoryview(offsets).cast("i")[len(rows)]
    texts = [_texts(rows, "name", count, pa.string()), _texts(rows, "header_value", count, pa.binary())]
    pairs = pa.StructArray.from_arrays(texts, names=["key", "value"])
    return pa.Array.from_buffers(_HEADERS, len(rows), [None, offsets], children=[pairs])


def _texts(rows: Rows, column: str, count: int, kind: pa.DataType, valid: bytes | None = None) -> pa.Array:
    offsets, data = pa.py_buffer(rows.buffer(f"{column}_offsets")), pa.py_buffer(rows.buffer(column))
    return pa.Array.from_buffers(kind, count, [None if valid is None else pa.py_buffer(valid), offsets, data])


def _times(rows: Rows, column: str) -> pa.Array | None:
    return None if rows.any & HUGE_TIME else _numbers(rows, column, _TIME)


def _numbers(rows: Rows, column: str, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(rows.buffer(column))])


_MAKERS: dict[str, Callable[[Rows], pa.Array | None]] = {
    "key": _keys,
    "value": _values,
    "headers": _headers,
    "offset": lambda rows: pa.nulls(len(rows), pa.int64()),  # an id has several numbers
    "timestamp": lambda rows: _times(rows, "timestamp"),
    "log_time": lambda rows: _times(rows, "published"),
    "attempt": lambda rows: _numbers(rows, "attempt", pa.int32()),
}
