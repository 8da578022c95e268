"""Columns as Arrow. Vectors are not copied number by number: they lie in the message as Arrow wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqplug_milvus._format.columns import INTS, LONGS, TEXTS, VECTOR_BYTES, Column
from mqplug_milvus._format.schema import DataType
from mqplug_milvus._format.wire import FormatError, as_bytes, pieces

_TYPES: Final[dict[DataType, Any]] = {
    DataType.BOOL: pa.bool_(),
    DataType.INT8: pa.int8(),
    DataType.INT16: pa.int16(),
    DataType.INT32: pa.int32(),
    DataType.INT64: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.VARCHAR: pa.string(),
    DataType.JSON: pa.string(),
    DataType.SPARSE_FLOAT_VECTOR: pa.binary(),
}
_FLOAT_VECTOR = 2
FEW_BYTES = 300
"""Up to so many bytes, a loop reads integers faster than NumPy, of which each call takes its time."""


def record_batch(columns: Sequence[Column]) -> pa.RecordBatch:
    """Return columns as a batch. JSON and the keys outside the schema are texts of JSON."""
    return pa.RecordBatch.from_arrays([_array(each) for each in columns], names=[each.name for each in columns])


def _array(column: Column) -> pa.Array:
    valid = column.valid()
    if valid is None:
        packed = _vectors(column) if column.dim is not None else _texts(column) or _integers(column)
        if packed is not None:
            if len(packed) != column.rows:
                raise FormatError(f"the column {column.name!r} has {len(packed)} values for {column.rows} rows")
            return packed
    values = column.values()
    try:
        if column.type is DataType.JSON:
            values = [None if each is None else json.dumps(each, ensure_ascii=False) for each in values]
        return pa.array(values, _TYPES.get(column.type))
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise FormatError(f"the column {column.name!r} has values of another type: {error}") from None


def _vectors(column: Column) -> pa.Array | None:
    vectors, dim = column._message.message(4), column.dim or 0
    if _FLOAT_VECTOR in vectors:
        data = b"".join(as_bytes(each, 4) for each in vectors.message(_FLOAT_VECTOR).packed(1))
        values = pa.Array.from_buffers(pa.float32(), len(data) // 4, [None, pa.py_buffer(data)])
        return pa.FixedSizeListArray.from_arrays(values, dim)
    for kind, size in VECTOR_BYTES.items():
        if kind in vectors and (width := size(dim)):
            whole = pa.py_buffer(vectors.data(kind))
            return pa.Array.from_buffers(pa.binary(width), whole.size // width, [None, whole])
    return None


def _texts(column: Column) -> pa.Array | None:
    scalars = column._message.message(3)
    found = pieces(scalars.data(TEXTS)) if TEXTS in scalars and _TYPES.get(column.type) == pa.string() else None
    if found is None:
        return None
    try:
        return pa.array(found, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise FormatError(f"a text is not UTF-8: {error}") from None


def _integers(column: Column) -> pa.Array | None:
    scalars = column._message.message(3)
    for kind in (INTS, LONGS):
        if kind in scalars and column.type in _TYPES:
            runs = [each for each in scalars.message(kind).packed(1) if not isinstance(each, int)]
            if len(runs) == 1 and len(runs[0]) > FEW_BYTES:
                return pa.array(varints(runs[0]), _TYPES[column.type])
    return None


def varints(data: memoryview) -> Any:
    """Return packed integers with signs, as a NumPy array."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw):
        return np.empty(0, np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise FormatError("an integer is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts + 1
    if (longest := int(sizes.max())) > 10:
        raise FormatError("an integer is longer than 64 bits")
    found = np.zeros(len(ends), np.uint64)
    for at in range(longest):
        has = sizes > at
        part = (raw[starts[has] + at] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
        found[has] |= part
    return found.view(np.int64)
