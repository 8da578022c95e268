"""What processes say to each other about a store: a JSON header and raw bytes, both with their lengths in front.

This layer stays as it is for ever, so that programs of different versions can at least tell each other so. What is
said in the frames has a number of its own, ``PROTOCOL``, which both sides name first.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any, Final

from mqplug import ConnectError

PROTOCOL: Final = 2
MAX_HEADER: Final = 64 << 20
MAX_BODY: Final = (1 << 29) + (1 << 26)  # the largest message, and what may come with it

_LENGTHS: Final = Struct("<4sII")
_MAGIC: Final = b"MQF1"

Header = dict[str, Any]
Frame = tuple[Header, bytes]


def pack(header: Header, *body: bytes) -> bytes:
    """Return one frame."""
    text = json.dumps(header, separators=(",", ":")).encode()
    length = sum(map(len, body))
    if len(text) > MAX_HEADER or length > MAX_BODY:
        raise ValueError(f"a frame of {len(text)} and {length} bytes is too long")
    return b"".join((_LENGTHS.pack(_MAGIC, len(text), length), text, *body))


class Inbox:
    """Takes bytes as they come and gives frames. It never holds more than one frame may have, and one piece."""

    def __init__(self, max_body: int = MAX_BODY, max_header: int = MAX_HEADER) -> None:
        self._held = bytearray()
        self._wanted = _LENGTHS.size
        self._max_body = max_body
        self._max_header = max_header

    def __len__(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> None:
        """Add bytes that came."""
        self._held += data

    def take(self) -> Frame | None:
        """Return the next frame if it is complete; ``ConnectError`` if this is no frame of ours."""
        held = self._held
        if len(held) < self._wanted:
            return None
        magic, header, body = _LENGTHS.unpack_from(held)
        if magic != _MAGIC or header > self._max_header or body > self._max_body:
            raise ConnectError("the other side does not speak the language of mqplug-rocksmq, or says too much")
        middle, end = _LENGTHS.size + header, _LENGTHS.size + header + body
        if len(held) < end:
            self._wanted = end
            return None
        self._wanted = _LENGTHS.size
        with memoryview(held) as view:
            text, rest = bytes(view[_LENGTHS.size : middle]), bytes(view[middle:end])
        del held[:end]
        return _object(text), rest


def _object(text: bytes) -> Header:
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConnectError("the other side sent a frame that is not JSON") from error
    if not isinstance(decoded, dict):
        raise ConnectError("the other side sent a frame that is not a JSON object")
    return decoded
