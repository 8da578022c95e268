"""Return pages as Arrow arrays that share the page's memory. Needs pyarrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Final, ParamSpec, Protocol

import pyarrow as pa

from mqplug import Corrupt

P = ParamSpec("P")

_TIME: Final = pa.timestamp("ms", tz="UTC")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema([("timestamp", _TIME), ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])
_BINARY: Final = pa.binary()

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
    pages = [(part, part.as_page()) for part in parts]
    columns: dict[str, pa.Array] = {}
    for name in names:
        if name == "offset":
            columns[name] = _joined([_offsets(part) for part in parts])
        elif name in _COLUMNS:
            columns[name] = _joined([_part(_COLUMNS[name](page), part) for part, page in pages])
    return columns


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _part(column: pa.Array, part: ArrowSlice) -> pa.Array:
    return column if len(column) == len(part) else column.slice(part.start, len(part))


def _offsets(part: ArrowSlice) -> pa.Array:
    first, end = part.base + part.start, part.end
    if hasattr(pa, "arange"):  # since pyarrow 21
        return pa.arange(first, end)
    return pa.Array.from_buffers(pa.int64(), len(part), [None, pa.py_buffer(array("q", range(first, end)))])


def page_record_batch(page: ArrowPage) -> pa.RecordBatch:
    """Return the messages of a page as a record batch."""
    return pa.RecordBatch.from_arrays([_times(page), _keys(page), _values(page), _headers(page)], schema=SCHEMA)


def _checked(build: Callable[P, pa.Array]) -> Callable[P, pa.Array]:
    """Turn the errors of *build* into ``Corrupt``."""

    @wraps(build)
    def checked(*args: P.args, **keywords: P.kwargs) -> pa.Array:
        try:
            return build(*args, **keywords)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise Corrupt(f"a column of a page is invalid: {error}") from error

    return checked


def _validated(column: pa.Array) -> pa.Array:
    """Return the column if its offsets are valid: Arrow trusts them, and a page may come from another process."""
    column.validate(full=True)
    return column


@_checked
def binary_column(page: ArrowPage, number: int, count: int) -> pa.Array:
    """Return *count* byte strings from three buffers, of which *number* is the first."""
    return _binary(count, _buffers(page, number, number + 3))


def _keys(page: ArrowPage) -> pa.Array:
    return binary_column(page, 1, page.count)


def _values(page: ArrowPage) -> pa.Array:
    return binary_column(page, 4, page.count)


@_checked
def _times(page: ArrowPage) -> pa.Array:
    return pa.Array.from_buffers(_TIME, page.count, [None, *_buffers(page, 0, 1)])


@_checked
def _headers(page: ArrowPage) -> pa.Array:
    [lists] = _buffers(page, 7, 8)
    if lists is None:
        return _no_headers(page.count)
    name_offsets, name_data, *value_buffers = _buffers(page, 8, 13)
    total = memoryview(lists).cast("i")[page.count]
    names = pa.Array.from_buffers(pa.utf8(), total, [None, name_offsets, name_data or _NO_BYTES])
    pairs = pa.StructArray.from_arrays([names, _binary(total, value_buffers)], fields=list(_HEADERS.value_type))
    return _validated(pa.Array.from_buffers(_HEADERS, page.count, [None, lists], children=[pairs]))


@lru_cache(maxsize=16)
def _no_headers(count: int) -> pa.Array:
    offsets = pa.py_buffer(bytes(4 * count + 4))
    return pa.Array.from_buffers(_HEADERS, count, [None, offsets], children=[_NO_PAIRS])


def _buffers(page: ArrowPage, first: int, end: int) -> list[pa.Buffer | None]:
    """Return the buffers *first* up to *end* of a page, None for an empty one."""
    whole = pa.py_buffer(page.raw)
    return [whole.slice(start, length) if length else None for start, length in page.places(first, end)]


def _binary(count: int, buffers: list[pa.Buffer | None]) -> pa.Array:
    validity, offsets, data = buffers
    if offsets is None:
        return _nulls(count)
    return _validated(pa.Array.from_buffers(_BINARY, count, [validity, offsets, data or _NO_BYTES]))


@lru_cache(maxsize=16)
def _nulls(count: int) -> pa.Array:
    return pa.nulls(count, _BINARY)


_COLUMNS: Final = {
    "key": _keys, "value": _values, "headers": _headers, "timestamp": _times, "log_time": _times,
}  # fmt: skip
