"""Protocol buffers, as far as this package meets them: fields of a message by number, as bytes and back."""

from __future__ import annotations

Fields = dict[int, int | bytes]

_VARINT, _FIXED64, _DELIMITED = 0, 1, 2


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field with a whole number, a text or bytes."""
    if isinstance(value, int):
        return _encoded(number << 3 | _VARINT) + _encoded(value)
    data = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _DELIMITED) + _encoded(len(data)) + data


def fields(data: bytes) -> Fields:
    """Return the fields of a message, by number; of a repeated one the last."""
    found: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                found[tag >> 3], at = _varint(data, at)
            case 2:
                size, at = _varint(data, at)
                found[tag >> 3] = data[at : at + size]
                at += size
            case kind:
                at += 8 if kind == _FIXED64 else 4
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _encoded(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
