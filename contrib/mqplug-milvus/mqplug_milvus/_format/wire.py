"""Protocol buffers as Milvus writes them, read without generated classes.

Only a dozen messages matter, and a vector's floats lie in the message as Arrow wants them. Generated classes would copy
each number into a Python object, and two versions of Milvus' descriptions cannot be loaded into one process.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import mqplug

Value = int | memoryview
Fields = Mapping[int, Sequence[Value]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS: Final = {_FIXED64: 8, _FIXED32: 4}
_FIRST_BYTES: Final = 1 << 3 | _BYTES
_SIGN: Final = 1 << 63
_RANGE: Final = 1 << 64


class FormatError(mqplug.Error, ValueError):
    """The bytes are not a message of Milvus, are damaged, or have a form that this version does not read."""

    fix = "Read Milvus' own topics, named by `mqplug milvus collections`; see `mqplug docs milvus`"


class Message:
    """A message: the values of its fields by number."""

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in split(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def unsigned(self, number: int) -> int:
        """Return an integer, 0 if it is absent."""
        value = self._fields[number][-1] if number in self._fields else 0
        if not isinstance(value, int):
            raise FormatError(f"field {number} is no integer")
        return value

    def integer(self, number: int) -> int:
        """Return an integer with a sign, 0 if it is absent."""
        value = self.unsigned(number)
        return value - _RANGE if value >= _SIGN else value

    def flag(self, number: int) -> bool:
        """Return a truth value, false if it is absent."""
        return self.unsigned(number) != 0

    def data(self, number: int) -> memoryview:
        """Return bytes, none if they are absent."""
        value = self._fields[number][-1] if number in self._fields else memoryview(b"")
        if isinstance(value, int):
            raise FormatError(f"field {number} is no text")
        return value

    def text(self, number: int) -> str:
        """Return a text, empty if it is absent."""
        return decoded(self.data(number))

    def message(self, number: int) -> Message:
        """Return a message, an empty one if it is absent."""
        return Message(self.data(number))

    def each(self, number: int) -> list[memoryview]:
        """Return the values of a repeated field of bytes, texts or messages."""
        values = self._fields.get(number, [])
        if any(isinstance(value, int) for value in values):
            raise FormatError(f"field {number} holds integers")
        return values  # type: ignore[return-value]

    def packed(self, number: int) -> list[Value]:
        """Return the values of a repeated field of numbers: packed runs, or single numbers."""
        return self._fields.get(number, [])

    def unsigned_each(self, number: int) -> list[int]:
        """Return a repeated field of integers."""
        found: list[int] = []
        for value in self.packed(number):
            found.extend([value] if isinstance(value, int) else varints(value))
        return found

    def integers(self, number: int) -> list[int]:
        """Return a repeated field of integers with signs."""
        return [value - _RANGE if value >= _SIGN else value for value in self.unsigned_each(number)]

    def floats(self, number: int, kind: str) -> array[float]:
        """Return a repeated field of floats (``f``) or doubles (``d``)."""
        found: array[float] = array(kind)
        for value in self.packed(number):
            found.frombytes(as_bytes(value, found.itemsize))
        if sys.byteorder == "big":
            found.byteswap()
        return found


class LaterIntegers(Sequence[int]):
    """A repeated field of integers with signs, which is read when somebody looks at it. Few look at row ids."""

    def __init__(self, message: Message, number: int) -> None:
        self._message, self._number = message, number

    @cached_property
    def _values(self) -> list[int]:
        return self._message.integers(self._number)

    def __getitem__(self, at: Any) -> Any:
        return self._values[at]

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._values == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self._values))


def as_bytes(value: Value, width: int) -> bytes | memoryview:
    """Return packed numbers of this width as they lie in the message. Raise ``FormatError`` if they do not fit it."""
    data = value.to_bytes(width, "little") if isinstance(value, int) else value
    if len(data) % width:
        raise FormatError(f"{len(data)} bytes are not a number of {width}-byte values")
    return data


def split(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield each field's number and its value: an integer, or bytes."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at) if data[at] > 0x7F else (data[at], at + 1)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise FormatError("a field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at) if at == end or data[at] > 0x7F else (data[at], at + 1)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise FormatError(f"field {number} has the unknown type {kind}")
        if at + size > end:
            raise FormatError(f"field {number} is longer than the message")
        piece = data[at : at + size]
        at += size
        yield number, piece if kind == _BYTES else int.from_bytes(piece, "little")


def pieces(data: memoryview) -> list[bytes] | None:
    """Return the pieces of a message that has only field 1, of bytes or texts, or None if it is another or damaged.

    It is for columns of texts, where ``Message`` would take most of the time.
    """
    whole, found = bytes(data), []
    at, end = 0, len(whole)
    while at < end - 1:
        size = whole[at + 1]
        if whole[at] != _FIRST_BYTES:
            return None
        at += 2
        if size > 0x7F:
            size, at = _varint(data, at - 1)
        found.append(whole[at : at + size])
        at += size
    return found if at == end else None


def varints(data: memoryview) -> list[int]:
    """Return packed integers."""
    if repeated := _repeated(data):
        return repeated
    found = []
    value = shift = 0
    for byte in data:
        if byte < 0x80:
            found.append(value | byte << shift)
            value = shift = 0
        else:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise FormatError("an integer is longer than 64 bits")
    if shift:
        raise FormatError("an integer is cut off")
    return found


def _repeated(data: memoryview) -> list[int]:
    """Return packed integers that are all the same, such as the time stamps of one insert; none if they differ."""
    if not data or data[-1] > 0x7F:
        return []
    value, size = _varint(data, 0)
    times, rest = divmod(len(data), size)
    return [value] * times if not rest and data == bytes(data[:size]) * times else []


def decoded(data: memoryview) -> str:
    """Return a text. Raise ``FormatError`` if it is not UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"a text is not UTF-8: {error}") from None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise FormatError("an integer is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (_RANGE - 1), at
        shift += 7
        if shift > 63:
            raise FormatError("an integer is longer than 64 bits")
