"""Return pages as Arrow arrays that share the page's memory. Needs pyarrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final, ParamSpec, Protocol

import pyarrow as pa

from mqplug import Corrupt

P = ParamSpec("P")

_TIME: Final = pa.timestamp("ms", tz="UTC")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema([("timestamp", _TIME), ("key", pa.binary()), ("value", pa.binary()), ("headers", _HEADERS)])
_BATCH_TIME: Final = pa.timestamp("us", tz="UTC")
_BINARY: Final = pa.binary()

_NO_PAIRS: Final = pa.array([], _HEADERS.value_type)
_NO_BYTES: Final = pa.py_buffer(b"")  # Arrow requires a data buffer wherever there are offsets


class ArrowPage(Protocol):
    """The part of a page that Arrow needs: its message count, and its buffers by number."""

    count: int

    def buffer(self, number: int, /) -> memoryview: ...


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
    """Return the named columns, as far as pages have them, joined over all parts."""
    places = [(part, part.as_page()) for part in parts]
    made = {name: [_COLUMNS[name](*place) for place in places] for name in names if name in _COLUMNS}
    return {name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays) for name, arrays in made.items()}


def page_record_batch(page: ArrowPage) -> pa.RecordBatch:
    """Return the messages of a page as a record batch."""
    return pa.RecordBatch.from_arrays([_times(page), _keys(page), _values(page), _headers(page)], schema=SCHEMA)


def _checked(build: Callable[P, pa.Array]) -> Callable[P, pa.Array]:
    """Validate the result of *build*: Arrow trusts offsets, and a page may come from another process."""

    @wraps(build)
    def checked(*args: P.args, **keywords: P.kwargs) -> pa.Array:
        try:
            column = build(*args, **keywords)
            column.validate(full=True)
        except (ValueError, TypeError, IndexError) as error:
            raise Corrupt(f"a column of a page is invalid: {error}") from error
        return column

    return checked


@_checked
def binary_column(page: ArrowPage, number: int, count: int) -> pa.Array:
    """Return *count* byte strings from three buffers, of which *number* is the first."""
    return _binary(count, _buffers(page, number, number + 3))


def _keys(page: ArrowPage) -> pa.Array:
    return binary_column(page, 1, page.count)


def _values(page: ArrowPage) -> pa.Array:
    return binary_column(page, 4, page.count)


def _times(page: ArrowPage) -> pa.Array:
    return pa.Array.from_buffers(_TIME, page.count, [None, *_buffers(page, 0, 1)])


@_checked
def _headers(page: ArrowPage) -> pa.Array:
    [lists] = _buffers(page, 7, 8)
    if lists is None:
        offsets = pa.py_buffer(bytes(4 * page.count + 4))
        return pa.Array.from_buffers(_HEADERS, page.count, [None, offsets], children=[_NO_PAIRS])
    name_offsets, name_data, *value_buffers = _buffers(page, 8, 13)
    total = memoryview(lists).cast("i")[page.count]
    names = pa.Array.from_buffers(pa.utf8(), total, [None, name_offsets, name_data or _NO_BYTES])
    pairs = pa.StructArray.from_arrays([names, _binary(total, value_buffers)], fields=list(_HEADERS.value_type))
    return pa.Array.from_buffers(_HEADERS, page.count, [None, lists], children=[pairs])


def _buffers(page: ArrowPage, first: int, end: int) -> list[pa.Buffer | None]:
    """Return the buffers *first* up to *end* of a page, None for an empty one."""
    found = (page.buffer(number) for number in range(first, end))
    return [pa.py_buffer(buffer) if buffer else None for buffer in found]


def _binary(count: int, buffers: list[pa.Buffer | None]) -> pa.Array:
    validity, offsets, data = buffers
    if offsets is None:
        return pa.nulls(count, _BINARY)
    return pa.Array.from_buffers(_BINARY, count, [validity, offsets, data or _NO_BYTES])


def _part_of(column: Callable[[ArrowPage], pa.Array]) -> Callable[[ArrowSlice, ArrowPage], pa.Array]:
    return lambda part, page: column(page).slice(part.start, len(part))


@_checked
def _precise_times(page: ArrowPage) -> pa.Array:
    return _times(page).cast(_BATCH_TIME)


def _offsets(part: ArrowSlice, _: ArrowPage) -> pa.Array:
    first, end = part.base + part.start, part.end
    if hasattr(pa, "arange"):  # since pyarrow 21
        return pa.arange(first, end)
    return pa.Array.from_buffers(pa.int64(), len(part), [None, pa.py_buffer(array("q", range(first, end)))])


_COLUMNS: Final = {
    "key": _part_of(_keys),
    "value": _part_of(_values),
    "headers": _part_of(_headers),
    "timestamp": _part_of(_precise_times),
    "log_time": _part_of(_precise_times),
    "offset": _offsets,
}
