"""Encode Arrow arrays as pages without an object per message: pages have Arrow's layout. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as functions

from mqplug_rocksmq._format.page import LazyBodies, PageBody, PageWriter, page_rows

pc: Any = functions  # its functions are generated at import: type checkers know few of them

ARROW_COLUMNS: Final = ("timestamp", "key", "value", "headers")


def arrow_page_bodies(arrays: Mapping[str, pa.Array], now: int) -> Iterable[PageBody]:
    """Return messages as page bodies of a suitable size. Messages without a timestamp get *now*.

    The arrays come from ``mqplug.spi.Run.arrow``. All but the values may be missing.
    """
    values = arrays["value"]
    first, last = _data_range(values)
    rows = page_rows(len(values), last - first)
    if len(rows) == 1:
        return [_encode(arrays, now)]
    return LazyBodies(rows, lambda part: _encode({name: array[part] for name, array in arrays.items()}, now))


def _encode(arrays: Mapping[str, pa.Array], now: int) -> PageBody:
    count = len(arrays["value"])
    writer = PageWriter()
    newest = _times(writer, arrays.get("timestamp"), count, now)
    _binary(writer, arrays.get("key"))
    _binary(writer, arrays["value"])
    _headers(writer, arrays.get("headers"))
    return writer.body(count, newest)


def _times(writer: PageWriter, times: pa.Array | None, count: int, now: int) -> int:
    if times is None:
        writer.times([now] * count)
        return now
    numbers = times.cast(pa.int64())
    if numbers.null_count:
        numbers = numbers.fill_null(now)
    writer.add(memoryview(numbers.buffers()[1])[8 * numbers.offset : 8 * (numbers.offset + count)])
    return int(pc.max(numbers).as_py())


def _binary(writer: PageWriter, array: pa.Array | None) -> None:
    if array is None or array.null_count == len(array):
        writer.absent(3)
        return
    if array.null_count:
        writer.add(_validity(array))
    else:
        writer.absent(1)
    writer.add(_offsets(array))
    _data(writer, array)


def _headers(writer: PageWriter, lists: pa.Array | None) -> None:
    pairs = None if lists is None else lists.flatten()
    if pairs is None or not len(pairs):
        writer.absent(6)
        return
    writer.add(_offsets(lists))
    names, values = pairs.flatten()
    writer.add(_offsets(names))
    _data(writer, names)
    _binary(writer, values)


def _data_range(array: pa.Array) -> tuple[int, int]:
    """Return where the data of an array begins and ends, from its offsets."""
    starts = memoryview(array.buffers()[1]).cast("q" if _is_large(array) else "i")
    return starts[array.offset], starts[array.offset + len(array)]


def _offsets(array: pa.Array) -> memoryview:
    """Return the offsets of an array's items as 4-byte numbers that begin at 0."""
    kind = pa.int64() if _is_large(array) else pa.int32()
    starts = pa.Array.from_buffers(kind, len(array) + 1, [None, array.buffers()[1]], offset=array.offset)
    first, _ = _data_range(array)
    if first:
        starts = pc.subtract(starts, pa.scalar(first, kind))
    starts = starts.cast(pa.int32())
    return memoryview(starts.buffers()[1])[4 * starts.offset : 4 * (starts.offset + len(starts))]


def _data(writer: PageWriter, array: pa.Array) -> None:
    first, last = _data_range(array)
    data = array.buffers()[2]
    writer.add(b"" if data is None else memoryview(data)[first:last])


def _validity(array: pa.Array) -> bytes:
    """Return the validity bitmap of an array, shifted to begin at bit 0."""
    first, stop = array.offset, array.offset + len(array)
    bits: int = int.from_bytes(memoryview(array.buffers()[0])[first // 8 : (stop + 7) // 8], "little") >> first % 8
    return (bits & (1 << len(array)) - 1).to_bytes((len(array) + 7) // 8, "little")


def _is_large(array: pa.Array) -> bool:
    return bool(array.type == pa.large_binary())
