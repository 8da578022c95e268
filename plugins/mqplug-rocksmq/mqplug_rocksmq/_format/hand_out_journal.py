"""The journal of hand-outs as stored: records of a note's key and value, each with the token of its generation."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

TOKEN_BYTES: Final = 8
_HEAD: Final = Struct(f"<III{TOKEN_BYTES}s")  # the token last: a record that was not finished has none
_AFTER_CRC_AT: Final = 4


class JournalContent(NamedTuple):
    """The notes in a journal by their keys, and the byte where a damaged record begins (None: there is none)."""

    notes: dict[bytes, bytes]
    damaged: int | None


def encode_record(token: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Encode a note as the head of a record, which is to be written last, and the body after it."""
    body = key + value
    checksum = crc32c(body, crc32c(_HEAD.pack(0, len(key), len(value), token)[_AFTER_CRC_AT:]))
    return _HEAD.pack(checksum, len(key), len(value), token), body


def read_journal(raw: bytes, token: bytes) -> JournalContent:
    """Decode the records up to the first that is not sound or has another token."""
    notes: dict[bytes, bytes] = {}
    at = 0
    while (start := at + _HEAD.size) <= len(raw):
        _, key_bytes, value_bytes, _ = _HEAD.unpack_from(raw, at)
        middle = start + key_bytes
        end = middle + value_bytes
        key, value = raw[start:middle], raw[middle:end]
        if end > len(raw) or raw[at:start] != encode_record(token, key, value)[0]:
            break
        notes[key], at = value, end
    return JournalContent(notes, at if token in raw[at:] else None)
