"""Frames between processes: a JSON header and raw bytes, preceded by their lengths; and the peer's process and user.

This layer never changes, so that programs of different versions can at least detect the difference. The content of
frames has its own version, ``PROTOCOL``, which both sides send first.
"""

from __future__ import annotations

import json
import socket
from struct import Struct
from typing import Any, Final

from mqplug import ConnectError

PROTOCOL: Final = 5
MAX_HEADER: Final = 64 << 20
LARGE_BODY: Final = 1 << 16  # frames of this size and more get their own memory
MAX_BODY: Final = (1 << 29) + (1 << 26)  # the largest message, and room for the rest of its page

_LENGTHS: Final = Struct("<4sII")
_MAGIC: Final = b"MQF1"

FrameHeader = dict[str, Any]
Frame = tuple[FrameHeader, bytes]


# Created once: dumps creates one for each call. A header is a tree without surrounding white space.
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode

_CREDENTIALS: Final = Struct("3i")


def pack_frame(header: FrameHeader, *body: bytes) -> bytes:
    """Return one frame."""
    text = _encode(header).encode()
    length = sum(map(len, body))
    if len(text) > MAX_HEADER or length > MAX_BODY:
        raise ValueError(f"a frame of {len(text)} and {length} bytes is too long: at most {MAX_HEADER} and {MAX_BODY}")
    return b"".join((_LENGTHS.pack(_MAGIC, len(text), length), text, *body))


class FrameReader:
    """Turns received bytes into frames. It never holds more than one frame of the allowed size, and one piece.

    Bytes are not copied until a frame is complete.
    """

    def __init__(self, max_body: int = MAX_BODY, max_header: int = MAX_HEADER) -> None:
        self._pieces: list[bytes] = []
        self._at = 0  # where the next frame begins in the first piece
        self._size = 0  # bytes that are not taken yet
        self._wanted = _LENGTHS.size
        self._max_body = max_body
        self._max_header = max_header

    def __len__(self) -> int:
        return self._size

    @property
    def wanted(self) -> int:
        """The size of the frame being received, in bytes; only a few until its beginning has come."""
        return self._wanted

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._pieces.append(data)
        self._size += len(data)

    def take(self) -> Frame | None:
        """Return the next frame if it is complete. Raise ``ConnectError`` if these bytes are not a valid frame."""
        if self._size < self._wanted:
            return None
        held, start = self._joined(), self._at
        magic, header, body = _LENGTHS.unpack_from(held, start)
        if magic != _MAGIC or header > self._max_header or body > self._max_body:
            raise ConnectError("the other side does not speak mqplug-rocksmq's protocol, or sent too large a frame")
        length = _LENGTHS.size + header + body
        if self._size < length:
            self._wanted = length
            return None
        self._wanted = _LENGTHS.size
        self._size -= length
        self._at += length
        if not self._size:
            self._pieces, self._at = [], 0
        middle = start + _LENGTHS.size + header
        return _object(held[start + _LENGTHS.size : middle]), held[middle : start + length]

    def large_frame(self) -> LargeFrame | None:
        """Return the frame being received if it is large. The caller receives its remaining bytes into it."""
        if self._wanted < LARGE_BODY:
            return None
        large = LargeFrame(self._joined()[self._at :], self._wanted)
        self._pieces, self._at, self._size, self._wanted = [], 0, 0, _LENGTHS.size
        return large

    def _joined(self) -> bytes:
        if len(self._pieces) > 1:
            self._pieces[0] = self._pieces[0][self._at :]
            self._pieces, self._at = [b"".join(self._pieces)], 0
        return self._pieces[0]


class LargeFrame:
    """A frame that is received into one piece of memory, of which its body is a part: no byte is copied again.

    The body begins at a multiple of eight bytes there, because Arrow takes the buffers of its pages as they are.
    """

    def __init__(self, begun: bytes, length: int) -> None:
        _, header, _ = _LENGTHS.unpack_from(begun)
        start = -(_LENGTHS.size + header) % 8
        self._header_at = start + _LENGTHS.size
        self._body_at = self._header_at + header
        self._memory = memoryview(bytearray(start + length))
        self._memory[start : start + len(begun)] = begun
        self._at = start + len(begun)

    @property
    def rest(self) -> memoryview:
        """The memory for the bytes that have not come yet; empty when the frame is complete."""
        return self._memory[self._at :]

    def received(self, size: int) -> None:
        """Record that *size* more bytes of the rest have come."""
        self._at += size

    def take(self) -> tuple[FrameHeader, memoryview]:
        """Return the complete frame."""
        memory = self._memory.toreadonly()
        return _object(bytes(memory[self._header_at : self._body_at])), memory[self._body_at :]


def _object(text: bytes) -> FrameHeader:
    try:
        decoded, end = _decode(string := text.decode())
    except (ValueError, RecursionError) as error:
        raise ConnectError("the other side sent a frame that is not JSON") from error
    if not isinstance(decoded, dict) or end < len(string):
        raise ConnectError("the other side sent a frame that is not a JSON object")
    return decoded


def user_of(connection: socket.socket) -> int | None:
    """Return the user of the process at the other end, or None where the system does not report it."""
    found = _credentials(connection)
    return None if found is None else found[1]


def process_of(connection: socket.socket) -> int | None:
    """Return the id of the process at the other end, or None where the system does not report it."""
    found = _credentials(connection)
    return None if found is None else found[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(raw)
    return process, user, group
