"""What processes say to each other about a store: a JSON header and raw bytes, both with their lengths in front."""

from __future__ import annotations

import json
from struct import Struct
from typing import Any, Final

from mqplug import ConnectError

_LENGTHS: Final = Struct("<4sII")
_MAGIC: Final = b"MQF1"
MAX_HEADER: Final = 4 << 20
MAX_BODY: Final = (1 << 31) - 1

Header = dict[str, Any]


def pack(header: Header, body: bytes = b"") -> bytes:
    """Return one frame."""
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER or len(body) > MAX_BODY:
        raise ValueError(f"a frame of {len(text)} and {len(body)} bytes is too long")
    return b"".join((_LENGTHS.pack(_MAGIC, len(text), len(body)), text, body))


class Inbox:
    """Takes bytes as they come and gives frames."""

    def __init__(self, max_body: int) -> None:
        self._held = bytearray()
        self._max_body = max_body

    def feed(self, data: bytes) -> None:
        """Add bytes that came."""
        self._held += data

    def take(self) -> tuple[Header, bytes] | None:
        """Return the next frame if it is complete; ``ConnectError`` if this is no frame of ours."""
        if len(self._held) < _LENGTHS.size:
            return None
        magic, header, body = _LENGTHS.unpack_from(self._held)
        if magic != _MAGIC or header > MAX_HEADER or body > self._max_body:
            raise ConnectError("the other side does not speak the language of mqplug-rocksmq 0.1, or says too much")
        middle, end = _LENGTHS.size + header, _LENGTHS.size + header + body
        if len(self._held) < end:
            return None
        text, rest = bytes(self._held[_LENGTHS.size : middle]), bytes(self._held[middle:end])
        del self._held[:end]
        return _object(text), rest


def _object(text: bytes) -> Header:
    try:
        decoded = json.loads(text)
    except ValueError as error:
        raise ConnectError("the other side sent a frame that is not JSON") from error
    if not isinstance(decoded, dict):
        raise ConnectError("the other side sent a frame that is not a JSON object")
    return decoded
