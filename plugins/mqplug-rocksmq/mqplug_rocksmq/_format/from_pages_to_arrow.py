"""Return pages as Arrow arrays that share the page's memory. Needs pyarrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

import pyarrow as pa

from mqplug import Corrupt

Buffers = Sequence[pa.Buffer | None]
"""The buffers of a page, in the order of its directory; None for an empty one."""

_TIME: Final = pa.timestamp("ms", tz="UTC")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema([("timestamp", _TIME), ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])
_BINARY: Final = pa.binary()

_BUFFER_COUNT: Final = 13
_INVALID: Final = (ValueError, TypeError, LookupError, ArithmeticError)
_NO_PAIRS: Final = pa.array([], _HEADERS.value_type)
_NO_BYTES: Final = pa.py_buffer(b"")  # Arrow requires a data buffer wherever there are offsets


class ArrowPage(Protocol):
    """The part of a page that Arrow needs: its bytes, its message count, and the places of its buffers."""

    raw: bytes | memoryview
    count: int

    def places(self, first: int, end: int, /) -> Sequence[tuple[int, int]]: ...


class ArrowSlice(Protocol):
    """The part of a slice that Arrow needs: messages at the offsets from ``base + start`` up to ``end``."""

    @property
    def base(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    def as_page(self) -> ArrowPage: ...
    def __len__(self) -> int: ...


def joined_columns(parts: Sequence[ArrowSlice], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return those of the named columns that pages have, each joined over all parts."""
    known = [name for name in names if name in _COLUMNS]
    pages = [_slice_columns(part, known) for part in parts]
    arrays = pages[0] if len(pages) == 1 else map(pa.concat_arrays, zip(*pages, strict=True))
    columns = dict(zip(known, arrays, strict=True))
    if "offset" in names:
        columns["offset"] = _offsets(parts)
    return columns


def _slice_columns(part: ArrowSlice, names: Sequence[str]) -> list[pa.Array]:
    """Return the named columns of the messages of a slice."""
    page, start, count = part.as_page(), part.start, part.end - part.base - part.start
    columns = page_columns(page, names)
    return columns if count == page.count else [column.slice(start, count) for column in columns]


def _offsets(parts: Sequence[ArrowSlice]) -> pa.Array:
    start, end = parts[0].base + parts[0].start, parts[-1].end
    if end - start == sum(map(len, parts)):  # without gaps
        return _range(start, end)
    return pa.concat_arrays([_range(part.base + part.start, part.end) for part in parts])


def _range(start: int, end: int) -> pa.Array:
    if hasattr(pa, "arange"):  # since pyarrow 21
        return pa.arange(start, end)
    return pa.Array.from_buffers(pa.int64(), end - start, [None, pa.py_buffer(array("q", range(start, end)))])


def page_record_batch(page: ArrowPage) -> pa.RecordBatch:
    """Return the messages of a page as a record batch."""
    return pa.RecordBatch.from_arrays(page_columns(page, SCHEMA.names), schema=SCHEMA)


def page_columns(page: ArrowPage, names: Iterable[str]) -> list[pa.Array]:
    """Return the named columns of a page."""
    buffers = _buffers(page, 0, _BUFFER_COUNT)
    try:
        return [_COLUMNS[name](page.count, buffers) for name in names]
    except _INVALID as error:
        raise _corrupt(error) from error


def binary_column(page: ArrowPage, number: int, count: int) -> pa.Array:
    """Return *count* byte strings from three buffers, of which *number* is the first."""
    buffers = _buffers(page, number, number + 3)
    try:
        return _binary(count, buffers)
    except _INVALID as error:
        raise _corrupt(error) from error


def _corrupt(error: Exception) -> Corrupt:
    return Corrupt(f"a column of a page is invalid: {error}")


def _buffers(page: ArrowPage, first: int, end: int) -> Buffers:
    whole = pa.py_buffer(page.raw)
    return [whole.slice(start, length) if length else None for start, length in page.places(first, end)]


def _validated(column: pa.Array) -> pa.Array:
    """Return the column if its offsets are valid: Arrow trusts them, and a page may come from another process."""
    column.validate(full=True)
    return column


def _times(count: int, buffers: Buffers) -> pa.Array:
    return pa.Array.from_buffers(_TIME, count, [None, buffers[0]])


def _headers(count: int, buffers: Buffers) -> pa.Array:
    lists, name_offsets, name_data, *value_buffers = buffers[7:]
    if lists is None:
        return _no_headers(count)
    total = memoryview(lists).cast("i")[count]
    names = pa.Array.from_buffers(pa.utf8(), total, [None, name_offsets, name_data or _NO_BYTES])
    pairs = pa.StructArray.from_arrays([names, _binary(total, value_buffers)], fields=list(_HEADERS.value_type))
    return _validated(pa.Array.from_buffers(_HEADERS, count, [None, lists], children=[pairs]))


@lru_cache(maxsize=16)
def _no_headers(count: int) -> pa.Array:
    offsets = pa.py_buffer(bytes(4 * count + 4))
    return pa.Array.from_buffers(_HEADERS, count, [None, offsets], children=[_NO_PAIRS])


def _binary(count: int, buffers: Buffers) -> pa.Array:
    validity, offsets, data = buffers
    if offsets is None:
        return _nulls(count)
    return _validated(pa.Array.from_buffers(_BINARY, count, [validity, offsets, data or _NO_BYTES]))


@lru_cache(maxsize=16)
def _nulls(count: int) -> pa.Array:
    return pa.nulls(count, _BINARY)


_COLUMNS: Final[Mapping[str, Callable[[int, Buffers], pa.Array]]] = {
    "key": lambda count, buffers: _binary(count, buffers[1:4]),
    "value": lambda count, buffers: _binary(count, buffers[4:7]),
    "headers": _headers,
    "timestamp": _times,
    "log_time": _times,
}
