"""Pages: the columnar blocks of messages that a store keeps, format version 1.

``docs/page-format.md`` describes the bytes for readers in other languages. A page does not contain its own offset: its
key does. It contains the offset at which the page before it ended. That reveals a missing page, and distinguishes it
from an intended gap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from struct import Struct, pack
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from crc32c import crc32c

from mqplug import Corrupt, MessageTooLarge

if TYPE_CHECKING:
    import pyarrow

    Buffer = bytes | memoryview

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("mqplug-rocksmq reads and writes its pages on little-endian machines only")

Header = tuple[str, bytes | None]
HeaderPairs = tuple[Header, ...]

MAGIC: Final = b"MQP1"
_HEAD: Final = Struct("<4sHHIIQ26I")
_BEGIN: Final = Struct("<4sHHI")  # up to the checksum
_START: Final = Struct("<4sHHIIQ2I")  # and the first entry of the directory
_PLACE: Final = Struct("<2I")
_CRC: Final = Struct("<I")
_CRC_AT: Final = _BEGIN.size
_DIRECTORY: Final = Struct("<26I")
_DIRECTORY_AT: Final = _HEAD.size - _DIRECTORY.size
_ONE_TIME: Final = Struct("<q")
_ONE_ITEM: Final = Struct("<2i")
_BEFORE: Final = Struct("<Q")
_BEFORE_AT: Final = 16
_BUFFER_COUNT: Final = 13
_ALIGNMENT_BYTES: Final = 8
_ARROW_MIN_MESSAGES: Final = 32
_MAX_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999, in milliseconds since 1970
MAX_PAGE_MESSAGES: Final = 1000
MAX_PAGE_BYTES: Final = 256 << 10
MAX_APPEND_BYTES: Final = 1 << 30

# The numbers of buffers in the directory.
_TIME, _KEY, _VALUE, _LISTS, _NAMES, _HEADER_VALUES = 0, 1, 4, 7, 8, 10


class PageColumns(NamedTuple):
    """Messages to store, as columns of equal length; None is a column without values.

    ``ends``, if known, holds where each value ends when all are joined. Then no value may be None.
    """

    times: Sequence[int]
    values: Sequence[bytes | None] | None
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    ends: Sequence[int] | None = None

    def cut(self, rows: slice) -> PageColumns:
        """Return the messages in these rows."""
        if rows == slice(0, len(self.times)):
            return self
        return PageColumns(*(None if column is None else column[rows] for column in self[:4]))  # type: ignore[arg-type]


class PageBody(NamedTuple):
    """An encoded page that has no position in a log yet. ``seal`` adds it.

    Its parts are not joined before, because each copy of a page takes new memory. They may belong to Arrow arrays.
    """

    messages: int
    newest: int  # the largest timestamp
    directory: bytes
    parts: Sequence[Buffer]

    @property
    def size(self) -> int:
        """The size of the page in bytes."""
        return _HEAD.size + sum(map(len, self.parts))

    def seal(self, before: int) -> bytes:
        """Return the page for its position in a log, after a page that ended at the offset *before*."""
        begin, checksum = _begin(self.messages)
        rest = _BEFORE.pack(before) + self.directory
        checksum = crc32c(rest, checksum)
        for part in self.parts:
            checksum = crc32c(part, checksum)
        return b"".join((begin, _CRC.pack(checksum), rest, *self.parts))

    def copied(self) -> PageBody:
        """Return the page in memory of its own, which keeps no larger array alive."""
        return self._replace(parts=(b"".join(self.parts),))


@lru_cache(maxsize=64)
def _begin(messages: int) -> tuple[bytes, int]:
    """Return the beginning of a page, up to its checksum, and the checksum so far."""
    begin = _BEGIN.pack(MAGIC, 0, _BUFFER_COUNT, messages)
    return begin, crc32c(begin)


def reseal(page: bytes, before: int) -> bytes:
    """Return a page with *before* as the end of the page before it."""
    head, data = bytearray(page[: _HEAD.size]), page[_HEAD.size :]
    _BEFORE.pack_into(head, _BEFORE_AT, before)
    _CRC.pack_into(head, _CRC_AT, crc32c(data, _head_crc(bytes(head))))
    return bytes(head) + data


def encode_page(columns: PageColumns) -> PageBody:
    """Encode one page of at least one message."""
    writer = PageWriter()
    newest = writer.times(columns.times)
    writer.binary(columns.keys)
    writer.binary(columns.values, columns.ends)
    writer.headers(columns.headers)
    return writer.body(len(columns.times), newest)


def encode_single(time: int, key: bytes | None, value: bytes | None) -> PageBody:
    """Encode a page of one message without headers, in a quarter of the time of ``encode_page``."""
    parts = [_ONE_TIME.pack(time)]
    for item in (key, value):
        if item is not None:
            length = len(item)
            parts += (_ONE_ITEM.pack(0, length), item, bytes(-length % _ALIGNMENT_BYTES))
    directory = _single_directory(None if key is None else len(key), None if value is None else len(value))
    return PageBody(1, time, directory, (b"".join(parts),))


@lru_cache(maxsize=1024)
def _single_directory(key: int | None, value: int | None) -> bytes:
    """Encode the directory of a page of one message without headers, from the lengths of its key and value."""
    at = _HEAD.size + _ONE_TIME.size
    directory = [_HEAD.size, _ONE_TIME.size]
    for length in (key, value):
        if length is None:
            directory += (at, 0) * 3
            continue
        start = at + _ONE_ITEM.size
        directory += (at, 0, at, _ONE_ITEM.size, start, length)
        at = start + length + -length % _ALIGNMENT_BYTES
    return _DIRECTORY.pack(*directory, *(at, 0) * 6)


class PageWriter:
    """Collects the buffers of a page, aligned, and their positions for the directory."""

    __slots__ = ("_directory", "_end", "_parts")

    def __init__(self) -> None:
        self._parts: list[Buffer] = []
        self._directory: list[int] = []
        self._end = _HEAD.size

    def body(self, count: int, newest: int) -> PageBody:
        """Return the collected buffers as a page body."""
        return PageBody(count, newest, _DIRECTORY.pack(*self._directory), self._parts)

    def add(self, part: bytes | memoryview) -> None:
        """Add a buffer."""
        length = len(part)
        self._directory += (self._end, length)
        self._parts.append(part)
        if padding := -length % _ALIGNMENT_BYTES:
            self._parts.append(bytes(padding))
        self._end += length + padding

    def absent(self, buffers: int) -> None:
        """Add *buffers* empty buffers."""
        self._directory += (self._end, 0) * buffers

    def times(self, times: Sequence[int]) -> int:
        """Add the timestamps, and return the largest."""
        first, count = times[0], len(times)
        if times.count(first) == count:  # they were sent together
            self.add(pack("<q", first) * count)
            return first
        self.add(pack(f"<{count}q", *times))
        return max(times)

    def binary(self, column: Sequence[bytes | None] | None, ends: Sequence[int] | None = None) -> None:
        """Add a column that may contain None. *ends*, if known, holds where each item ends."""
        if column is None:
            return self.absent(3)
        try:
            data = b"".join(column)  # type: ignore[arg-type]
        except TypeError:  # searching for None first would take longer than everything else
            return self._with_gaps(column)
        self.absent(1)
        return self._data(data, ends or accumulate(map(len, column)))  # type: ignore[arg-type]

    def _with_gaps(self, column: Sequence[bytes | None]) -> None:
        if column.count(None) == len(column):
            return self.absent(3)
        self.add(_bitmap(column))
        filled = [item or b"" for item in column]
        return self._data(b"".join(filled), accumulate(map(len, filled)))

    def _offsets(self, ends: Iterable[int]) -> None:
        offsets = (0, *ends)
        self.add(pack(f"<{len(offsets)}i", *offsets))

    def _data(self, data: bytes, ends: Iterable[int]) -> None:
        self._offsets(ends)
        self.add(data)

    def headers(self, column: Sequence[Sequence[Header]] | None) -> None:
        """Add the headers of all messages."""
        flat = list(chain.from_iterable(column or ()))
        if column is None or not flat:
            return self.absent(6)
        self._offsets(accumulate(map(len, column)))
        names = [name.encode() for name, _ in flat]
        self._data(b"".join(names), accumulate(map(len, names)))
        return self.binary([value for _, value in flat])


def _bitmap(column: Sequence[object]) -> bytes:
    bits = "".join("0" if item is None else "1" for item in reversed(column))
    return int(bits, 2).to_bytes((len(column) + 7) // 8, "little")


def message_count(page: bytes) -> int:
    """Return the message count in a page's header, without verifying the page."""
    return int.from_bytes(page[8:12], "little")


def end_before(page: bytes) -> int:
    """Return the end of the previous page from a page's header, without verifying the page."""
    return int.from_bytes(page[_BEFORE_AT : _BEFORE_AT + 8], "little")


def _head_crc(head: bytes) -> int:
    return int(crc32c(head[_CRC_AT + 4 :], crc32c(head[:_CRC_AT])))


class Page:
    """A stored page, verified on creation. Columns are decoded on demand."""

    __slots__ = ("before", "count", "raw")

    count: int
    before: int
    raw: bytes | memoryview

    def __init__(self, raw: bytes | memoryview) -> None:
        if len(raw) < _HEAD.size:
            raise Corrupt(f"a page of {len(raw)} bytes is shorter than its header")
        magic, flags, buffers, self.count, checksum, self.before, _, times = _START.unpack_from(raw)
        if magic != MAGIC or flags or buffers != _BUFFER_COUNT:
            raise Corrupt(f"a value is not a page of format 1: it starts with {raw[:8].hex()}")
        if crc32c(memoryview(raw)[_CRC_AT + 4 :], crc32c(raw[:_CRC_AT])) != checksum:
            raise Corrupt(f"a page of {len(raw)} bytes does not match its checksum")
        if not self.count or times != 8 * self.count:
            raise Corrupt(f"a page of {self.count} messages has {times} bytes of timestamps")
        self.raw = raw

    @property
    def size(self) -> int:
        """The size of the page in bytes."""
        return len(self.raw)

    def unsealed(self) -> PageBody:
        """Return the page as a body without a position, after checking all of its columns."""
        for number in range(_BUFFER_COUNT):
            self.buffer(number)
        for first in (_KEY, _VALUE):
            self._examine(first, self.count)
        if self._length(_LISTS):
            total = self._ascend(_LISTS, self.count)
            self._examine(_HEADER_VALUES, total)
            self._ascend(_NAMES, total, _NAMES + 1)
            self._names(total)
        newest = max(self.buffer(_TIME).cast("Q").tolist())  # unsigned, so that a negative timestamp is too large
        if newest > _MAX_TIME_MS:
            raise Corrupt("a timestamp in a page lies outside the years 1970 to 9999")
        directory, data = bytes(self.raw[_DIRECTORY_AT : _HEAD.size]), bytes(self.raw[_HEAD.size :])
        return PageBody(self.count, newest, directory, (data,))

    def _examine(self, first: int, count: int) -> None:
        """Raise ``Corrupt`` unless three buffers, from *first* on, are a column of *count* values."""
        if self._length(first):
            self.buffer(first, (count + 7) // 8)
        if self._length(first + 1):
            self._ascend(first + 1, count, first + 2)
        elif self._length(first) or self._length(first + 2):
            raise Corrupt("a column of a page has values without offsets")

    def _ascend(self, number: int, count: int, data: int | None = None) -> int:
        """Return the last of *count* offsets. They must ascend from 0 to the length of buffer *data*."""
        offsets = self._offsets(number, count)
        if offsets[0] or offsets != sorted(offsets) or (data is not None and offsets[-1] != self._length(data)):
            raise Corrupt(f"the offsets in buffer {number} of a page are invalid")
        return offsets[-1]

    def times(self) -> list[int]:
        """Return the timestamps, in milliseconds since 1970."""
        return self.buffer(_TIME, 8 * self.count).cast("q").tolist()

    def keys(self) -> list[bytes | None]:
        """Return the keys."""
        return self._binary(_KEY, self.count)

    def values(self) -> list[bytes | None]:
        """Return the values."""
        return self._binary(_VALUE, self.count)

    def headers(self) -> list[HeaderPairs] | None:
        """Return the headers of each message, or None if no message has any."""
        if not self._length(_LISTS):
            return None
        starts = self._offsets(_LISTS, self.count)
        names = self._names(starts[-1])
        flat = list(zip(names, self._binary(_HEADER_VALUES, starts[-1]), strict=True))
        return [tuple(flat[start:stop]) for start, stop in pairwise(starts)]

    def _names(self, total: int) -> list[str]:
        try:
            return [str(name, "utf-8") for name in self._data(_NAMES, total)]
        except UnicodeDecodeError as error:
            raise Corrupt("the name of a header in a page is not UTF-8") from error

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the columns timestamp, key, value and headers as a record batch that shares the page's memory."""
        from mqplug_rocksmq._format.from_pages_to_arrow import page_record_batch

        return page_record_batch(self)

    def _length(self, number: int) -> int:
        return _PLACE.unpack_from(self.raw, _DIRECTORY_AT + number * _PLACE.size)[1]  # type: ignore[no-any-return]

    def places(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the start and length of the buffers *first* up to *end*. Raise ``Corrupt`` if one leaves the page."""
        directory = self.raw[_DIRECTORY_AT + first * _PLACE.size : _DIRECTORY_AT + end * _PLACE.size]
        places = list(_PLACE.iter_unpack(directory))
        for start, length in places:
            if start % _ALIGNMENT_BYTES or start + length > len(self.raw):
                raise Corrupt(f"one of the buffers {first} to {end - 1} of a page is outside it")
        return places

    def buffer(self, number: int, length: int | None = None) -> memoryview:
        """Return a buffer. Raise ``Corrupt`` unless it is inside the page and has the expected *length*."""
        [(start, held)] = self.places(number, number + 1)
        if length not in (None, held):
            raise Corrupt(f"buffer {number} of a page has {held} bytes instead of {length}")
        return memoryview(self.raw)[start : start + held]

    def _offsets(self, number: int, count: int) -> list[int]:
        return self.buffer(number, 4 * count + 4).cast("i").tolist()

    def _data(self, number: int, count: int) -> list[bytes]:
        offsets = self._offsets(number, count)
        data = bytes(self.buffer(number + 1, offsets[-1]))
        start = offsets[0]
        return [data[start : (start := stop)] for stop in offsets[1:]]

    def _binary(self, number: int, count: int) -> list[bytes | None]:
        if not self._length(number + 1):
            return [None] * count
        if count >= _ARROW_MIN_MESSAGES and "pyarrow" in sys.modules:  # three times as fast, if already imported
            from mqplug_rocksmq._format.from_pages_to_arrow import binary_column

            return cast("list[bytes | None]", binary_column(self, number, count).to_pylist())
        data = cast("list[bytes | None]", self._data(number + 1, count))
        if self._length(number):
            valid = int.from_bytes(self.buffer(number, (count + 7) // 8), "little")
            for index in range(count):
                if not valid >> index & 1:
                    data[index] = None
        return data


class LazyBodies:
    """Page bodies that are encoded while they are iterated over.

    If each is stored before the next, they reuse the same memory. Taking new memory costs more than encoding.
    """

    __slots__ = ("_encode", "_rows")

    def __init__(self, rows: Sequence[slice], encode: Callable[[slice], PageBody]) -> None:
        self._rows = rows
        self._encode = encode

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[PageBody]:
        return map(self._encode, self._rows)


def page_bodies(columns: PageColumns) -> Iterable[PageBody]:
    """Return messages as page bodies of a suitable size."""
    count = len(columns.times)
    size = columns.ends[-1] if columns.ends else sum(map(len, filter(None, columns.values or ())))
    rows = page_rows(count, size)
    return [encode_page(columns)] if len(rows) == 1 else LazyBodies(rows, lambda part: encode_page(columns.cut(part)))


def is_full(messages: int, size: int) -> bool:
    """Return whether a page of this many messages and bytes is full."""
    return messages >= MAX_PAGE_MESSAGES or size >= MAX_PAGE_BYTES


def page_rows(count: int, size: int) -> list[slice]:
    """Return the rows of each page, for *count* messages with *size* bytes of values in all."""
    if not count:
        raise ValueError("no messages to store")
    if size > MAX_APPEND_BYTES:
        raise MessageTooLarge(f"one append of {size} bytes exceeds the limit of {MAX_APPEND_BYTES} bytes")
    step = max(1, min(MAX_PAGE_MESSAGES, MAX_PAGE_BYTES * count // max(size, 1)))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
