"""The part of Pulsar's binary protocol that this package speaks: protocol buffers, and the commands of a handshake.

A protocol buffer is a message with numbered fields. Each command is a frame: its total size, the size of the command,
and the command as a protocol buffer.
"""

from __future__ import annotations

import struct

Fields = dict[int, int | bytes]

_VARINT, _FIXED64, _DELIMITED = 0, 1, 2


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field with an integer, a text or bytes."""
    if isinstance(value, int):
        return _encoded(number << 3 | _VARINT) + _encoded(value)
    data = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _DELIMITED) + _encoded(len(data)) + data


def fields(data: bytes) -> Fields:
    """Return the fields of a message, by number; only the last value of a repeated field."""
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


CONNECT, CONNECTED, ERROR = 2, 3, 14
LOOKUP, LOOKUP_RESPONSE = 23, 24
AUTH_CHALLENGE, AUTH_RESPONSE = 36, 37
METADATA_ERROR, AUTHENTICATION_ERROR, AUTHORIZATION_ERROR, TOPIC_NOT_FOUND = 1, 3, 4, 11
MAX_FRAME_BYTES = 64 * 1024  # of the answers to these commands
SIZE = struct.Struct(">I")

_CLIENT = "mqplug"
_PROTOCOL_VERSION = 20


def connect_command(method: str | None, data: bytes) -> bytes:
    """Return the command that begins a connection."""
    login = b"" if method is None else field(5, method) + field(3, data)
    return _framed(CONNECT, field(1, _CLIENT) + login + field(4, _PROTOCOL_VERSION))


def auth_response_command(method: str, data: bytes) -> bytes:
    """Return the answer to a broker that asks for the credentials again."""
    login = field(1, method) + field(2, data)
    return _framed(AUTH_RESPONSE, field(1, _CLIENT) + field(2, login) + field(3, _PROTOCOL_VERSION))


def lookup_command(topic: str, listener: str | None) -> bytes:
    """Return the command that asks which broker serves a topic, without creating the topic."""
    advertised = b"" if listener is None else field(7, listener)
    return _framed(LOOKUP, field(1, topic) + field(2, 1) + advertised)


def read_command(command: bytes) -> tuple[int, Fields]:
    """Return the type and the fields of a command. Raise ``ValueError`` if the bytes are not a command."""
    try:
        found = fields(command)
        kind = int(found[1])
        body = found[kind]
        if isinstance(body, bytes):
            return kind, fields(body)
    except (IndexError, KeyError) as error:
        raise ValueError("not a command of Pulsar") from error
    raise ValueError("not a command of Pulsar")


def text_field(body: Fields, number: int) -> str:
    """Return a field as text; empty if there is none."""
    found = body.get(number)
    return found.decode(errors="replace") if isinstance(found, bytes) else ""


def number_field(body: Fields, number: int) -> int | None:
    """Return a field as a number, or None."""
    found = body.get(number)
    return found if isinstance(found, int) else None


def _framed(kind: int, body: bytes) -> bytes:
    command = field(1, kind) + field(kind, body)
    return SIZE.pack(len(command) + SIZE.size) + SIZE.pack(len(command)) + command
