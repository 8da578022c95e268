"""The Arrow types that columns to send may have, and their conversion to a few types.

Values and keys become binary or large binary, headers a list of structs, timestamps milliseconds in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as functions
from pyarrow import types

from mqplug._model.position import LATEST_TIME_MS

pc: Any = functions  # they are made when that is imported: type checkers know few of them

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIME = pa.timestamp("ms", tz="UTC")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_STORED = (pa.binary(), pa.large_binary())
_MAX_BINARY_BYTES = 1 << 31  # bytes that the offsets of a binary array do not reach


def _binary(name: str, column: pa.ChunkedArray) -> pa.Array:
    if column.type not in _STORED or (column.num_chunks > 1 and column.nbytes >= _MAX_BINARY_BYTES):
        if not _is_binary(_plain(column.type)):
            raise _wrong(name, column, "binary")
        column = column.cast(pa.large_binary())
    return _whole(name, column)


def _headers(name: str, column: pa.ChunkedArray) -> pa.Array:
    wanted = "lists of structs of key, a string, and value, binary"
    if not _are_headers(column.type):
        raise _wrong(name, column, wanted)
    try:
        array = _whole(name, column.cast(_HEADERS))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # the latter of an older pyarrow, about the order of fields
        raise _wrong(name, column, wanted) from error
    if array.null_count:
        array = array.fill_null(pa.scalar([], _HEADERS))
    pairs = array.flatten()
    if pairs.null_count or pairs.field(0).null_count:
        raise TypeError(f"the column {name!r} has a header without a name")
    return array


def _times(name: str, column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if not (types.is_timestamp(kind) or _is_whole(kind)):
        raise _wrong(name, column, "timestamps with a time zone, or whole milliseconds since 1970")
    if types.is_timestamp(kind) and kind.tz is None:
        raise ValueError(f"the column {name!r} has no time zone: say one, as in timestamp('ms', tz='UTC')")
    per_second = _PER_SECOND[kind.unit if types.is_timestamp(kind) else "ms"]
    found = pc.min_max(column.cast(pa.int64(), safe=False)).as_py()
    if (found["min"] or 0) < 0 or (found["max"] or 0) * 1000 // per_second > LATEST_TIME_MS:
        raise ValueError(
            f"the column {name!r} has times that are not between the years 1970 and 9999: "
            "leave it out, or make these null, and the log gives its own time"
        )
    numbers = column if types.is_timestamp(kind) else column.cast(pa.int64())
    return _whole(name, numbers.cast(_TIME, safe=False))


def _partitions(name: str, column: pa.ChunkedArray) -> pa.Array:
    if not _is_whole(column.type):
        raise _wrong(name, column, "whole numbers")
    return _whole(name, column)


def _topics(name: str, column: pa.ChunkedArray) -> pa.Array:
    if not _is_string(_plain(column.type)):
        raise _wrong(name, column, "strings")
    return _whole(name, column)


NORMAL: dict[str, Callable[[str, pa.ChunkedArray], pa.Array]] = {
    "value": _binary,
    "key": _binary,
    "headers": _headers,
    "timestamp": _times,
    "topic": _topics,
    "partition": _partitions,
}
"""The columns that can be sent, each with the function that checks and converts it."""


def _whole(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array that is valid for its type. Its bytes are going to be stored."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the column {name!r} is not valid: {error}") from error
    return array


def _wrong(name: str, column: pa.ChunkedArray, wanted: str) -> TypeError:
    hint = "; encode it first, as in .cast('binary')" if wanted == "binary" and _is_string(column.type) else ""
    return TypeError(f"the column {name!r} is to be {wanted}, not {column.type}{hint}")


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


def _is_any(kind: pa.DataType, *checks: Callable[[pa.DataType], bool]) -> bool:
    return bool(types.is_null(kind)) or any(check(kind) for check in checks)


def _is_binary(kind: pa.DataType) -> bool:
    return _is_any(kind, types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)


def _is_string(kind: pa.DataType) -> bool:
    return _is_any(kind, types.is_string, types.is_large_string, types.is_string_view)


def _is_whole(kind: pa.DataType) -> bool:
    return _is_any(kind, types.is_integer)


def _are_headers(kind: pa.DataType) -> bool:
    if types.is_map(kind):
        return _is_string(kind.key_type) and _is_binary(kind.item_type)
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return bool(types.is_null(kind))
    pair = kind.value_type
    if not types.is_struct(pair) or {field.name for field in pair} != {"key", "value"}:
        return False
    return _is_string(pair.field("key").type) and _is_binary(pair.field("value").type)
