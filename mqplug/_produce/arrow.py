"""Arrow data to send, as the columns of a batch. Imported on first use; needs pyarrow.

The accepted column types are converted to a few: values and keys become binary or large binary, headers a list of
structs, timestamps milliseconds in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as functions
from pyarrow import types

from mqplug._model.errors import ConfigError
from mqplug._model.message import Headers
from mqplug._model.position import LATEST_TIME_MS

pc: Any = functions  # pyarrow generates them at import, so type checkers know few of them

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIME = pa.timestamp("ms", tz="UTC")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_STORED = (pa.binary(), pa.large_binary())
_MAX_BINARY_BYTES = 1 << 31  # beyond the offsets of a binary array


def _binary(name: str, column: pa.ChunkedArray) -> pa.Array:
    if column.type not in _STORED or (column.num_chunks > 1 and column.nbytes >= _MAX_BINARY_BYTES):
        if not _is_binary(_plain(column.type)):
            raise _wrong(name, column, "binary")
        column = column.cast(pa.large_binary())
    return _whole(name, column)


def _headers(name: str, column: pa.ChunkedArray) -> pa.Array:
    wanted = "lists of structs of key (a string) and value (binary)"
    if not _are_headers(column.type):
        raise _wrong(name, column, wanted)
    try:
        array = _whole(name, column.cast(_HEADERS))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # older pyarrow: ArrowTypeError for the order of fields
        raise _wrong(name, column, wanted) from error
    if array.null_count:
        array = array.fill_null(pa.scalar([], _HEADERS))
    pairs = array.flatten()
    if pairs.null_count or pairs.field(0).null_count:
        raise TypeError(f"column {name!r} has a header without a name")
    return array


def _times(name: str, column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if not (types.is_timestamp(kind) or _is_whole(kind)):
        raise _wrong(name, column, "timestamps with a time zone, or whole milliseconds since 1970")
    if types.is_timestamp(kind) and kind.tz is None:
        raise ValueError(f"column {name!r} has no time zone: set one, as in timestamp('ms', tz='UTC')")
    per_second = _PER_SECOND[kind.unit if types.is_timestamp(kind) else "ms"]
    found = pc.min_max(column.cast(pa.int64(), safe=False)).as_py()
    if (found["min"] or 0) < 0 or (found["max"] or 0) * 1000 // per_second > LATEST_TIME_MS:
        raise ValueError(
            f"column {name!r} has times that are not between the years 1970 and 9999: "
            "omit it, or make these null, and the log sets its own time"
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
    """Return the column as one array that is valid for its type, because its bytes are stored as they are."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"column {name!r} is not valid: {error}") from error
    return array


def _wrong(name: str, column: pa.ChunkedArray, wanted: str) -> TypeError:
    hint = "; encode it first, as in .cast('binary')" if wanted == "binary" and _is_string(column.type) else ""
    return TypeError(f"column {name!r} must be {wanted}, not {column.type}{hint}")


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


try:
    import pyarrow as pa
    import pyarrow.compute as functions
except ImportError as error:
    raise ConfigError("sending Arrow data needs pyarrow", fix="Run pip install 'mqplug[arrow]'") from error


_RECEIVED = (
    "offset",
    "id",
    "log_time",
    "timestamp_type",
    "attempt",
)  # columns of received messages that are not sent


class ArrowColumns:
    """Records given as Arrow arrays of a few types, with lists for callers that need lists.

    A column without any value is left out, except the column ``value``.
    """

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        self._arrays = arrays
        self._count = len(arrays["value"])

    @classmethod
    def of(cls, data: Any, topic: str | None) -> ArrowColumns:
        """Check an object with Arrow's C interface. Raise ``TypeError`` or ``ValueError`` before any I/O."""
        table = _table(data)
        arrays = {name: NORMAL[name](name, table.column(name)) for name in table.column_names if name in NORMAL}
        said = {name: array for name, array in arrays.items() if name == "value" or not _is_absent(array)}
        if topic is not None:
            _check_topic(said.pop("topic", None), topic)
        return cls(said)

    def __len__(self) -> int:
        return self._count

    def uses(self) -> tuple[bool, bool, bool, bool]:
        """Return whether there are tombstones, keys, headers, timestamps."""
        there = self._arrays
        return bool(there["value"].null_count), "key" in there, "headers" in there, "timestamp" in there

    def pick(self, rows: Sequence[int]) -> ArrowColumns:
        """Return the columns of these rows."""
        if len(rows) == self._count:
            return self
        if isinstance(rows, range) and rows.step == 1:
            return ArrowColumns({name: array.slice(rows.start, len(rows)) for name, array in self._arrays.items()})
        wanted = pa.array(rows, pa.int64())
        return ArrowColumns({name: array.take(wanted) for name, array in self._arrays.items()})

    def arrow(self, names: Sequence[str]) -> Mapping[str, pa.Array]:
        """Return the named columns that have a value in any record."""
        return {name: self._arrays[name] for name in names if name in self._arrays}

    @cached_property
    def _lengths(self) -> pa.Array:
        lengths = _lengths(self._arrays["value"])
        if "key" in self._arrays:
            lengths = pc.add(lengths.cast(pa.int64()), _lengths(self._arrays["key"]))
        if "headers" in self._arrays:
            lengths = pc.add(lengths, _header_lengths(self._arrays["headers"]))
        return lengths

    @cached_property
    def size(self) -> int:
        """The bytes of all values, keys and headers together."""
        columns = [self._arrays[name] for name in ("value", "key") if name in self._arrays]
        if "headers" in self._arrays:
            columns += self._arrays["headers"].flatten().flatten()
        return sum(map(_bytes_in, columns))

    @cached_property
    def sizes(self) -> list[int]:
        """The bytes of each record."""
        return _listed(self._lengths)

    @cached_property
    def ends(self) -> list[int]:
        """The cumulative bytes of the records."""
        return _listed(pc.cumulative_sum(self._lengths.cast(pa.int64())))

    @cached_property
    def values(self) -> list[bytes | None]:
        return _listed(self._arrays["value"])

    @cached_property
    def keys(self) -> list[bytes | None] | None:
        return self._list_of("key")

    @cached_property
    def headers(self) -> list[Headers] | None:
        array = self._arrays.get("headers")
        return None if array is None else list(_header_rows(array))

    @cached_property
    def timestamps(self) -> list[int | None] | None:
        array = self._arrays.get("timestamp")
        return None if array is None else _listed(array.cast(pa.int64()))

    @cached_property
    def partitions(self) -> list[Any] | None:
        return self._list_of("partition")

    @cached_property
    def topics(self) -> list[str | None] | None:
        return self._list_of("topic")

    def _list_of(self, name: str) -> list[Any] | None:
        array = self._arrays.get(name)
        return None if array is None else _listed(array)


def _table(data: Any) -> pa.Table:
    try:
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else pa.table(data)
    except pa.ArrowInvalid as error:
        raise TypeError(f"{type(data).__name__} has no columns: send a record batch or a table") from error
    names = table.column_names
    if unknown := [name for name in names if name not in NORMAL and name not in _RECEIVED]:
        raise ValueError(f"unknown column {unknown[0]!r}; expected one of {', '.join(NORMAL)}")
    if "value" not in names or len(set(names)) < len(names):
        raise ValueError(f"expected exactly one 'value' column and unique names, got {', '.join(names)}")
    return table


def _check_topic(topics: pa.Array | None, topic: str) -> None:
    """Raise if the column 'topic' names a topic other than the producer's."""
    others = [] if topics is None else [each for each in topics.unique().to_pylist() if each not in (None, topic)]
    if others:
        raise ValueError(
            f"column 'topic' names {others[0]!r}, but this producer sends to {topic!r}: omit the column, as in "
            "to_arrow(['key', 'value', 'headers', 'timestamp']), or open the producer without a topic"
        )


def _is_absent(array: pa.Array) -> bool:
    if isinstance(array, pa.ListArray):
        return not len(array.flatten())
    return bool(array.null_count == len(array))


def _listed(array: pa.Array) -> list[Any]:
    listed: list[Any] = array.to_pylist()
    return listed


def _lengths(array: pa.Array) -> pa.Array:
    lengths = pc.binary_length(array)
    return pc.fill_null(lengths, 0) if lengths.null_count else lengths


def _bytes_in(array: pa.Array) -> int:
    """Return the bytes of all items. Without nulls, the offsets give them without building a column."""
    if array.null_count or not len(array):
        return int(pc.sum(_lengths(array)).as_py() or 0)
    offsets = memoryview(array.buffers()[1]).cast("q" if array.type == pa.large_binary() else "i")
    return int(offsets[array.offset + len(array)] - offsets[array.offset])


def _starts(headers: pa.Array) -> list[int]:
    """Return the offset of each row's headers, and the end of the last row."""
    offsets = _listed(headers.offsets)
    return [each - offsets[0] for each in offsets]


def _header_lengths(headers: pa.Array) -> pa.Array:
    names, values = headers.flatten().flatten()
    ends = [0, *_listed(pc.cumulative_sum(pc.add(_lengths(names).cast(pa.int64()), _lengths(values))))]
    return pa.array([ends[stop] - ends[start] for start, stop in pairwise(_starts(headers))], pa.int64())


def _header_rows(headers: pa.Array) -> Iterator[Headers]:
    names, values = map(_listed, headers.flatten().flatten())
    flat = list(zip(names, values, strict=True))
    return (tuple(flat[start:stop]) for start, stop in pairwise(_starts(headers)))
