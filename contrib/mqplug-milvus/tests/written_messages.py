"""Writes protocol buffers, for messages that no recording has."""

from __future__ import annotations


def varint(value):
    """Return an integer as it is stored."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number, data):
    """Return a field of bytes, or of an integer."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def packed(values):
    """Return integers as they are packed."""
    return b"".join(map(varint, values))
