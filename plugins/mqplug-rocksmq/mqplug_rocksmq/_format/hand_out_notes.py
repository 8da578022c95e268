"""Stored hand-outs: notes of the messages of a shared log that went to members or were put off, and their journal."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from mqplug import Corrupt
from mqplug_rocksmq._format.keys import HANDED_OUT, log_key

_ELSEWHERE_FLAG: Final = 1  # the only flag
_FLAGS: Final = Struct("<I")
_SPAN: Final = Struct("<QIIQ")
_NUMBER: Final = Struct(">Q")
_LENGTH: Final = Struct(">H")
_ONE_SPAN: Final = Struct("<IQIIQ")
TOKEN_BYTES: Final = 8
_HEAD: Final = Struct(f"<III{TOKEN_BYTES}s")  # the token comes last, so an unfinished record has none
_CRC: Final = Struct("<I")  # the first field of the head, of all that follows
_HEAD_TAIL: Final = Struct(f"<II{TOKEN_BYTES}s")


class HandOutSpan(NamedTuple):
    """Consecutive messages with one delivery count and one due time, in milliseconds since 1970."""

    first: int
    size: int
    attempts: int
    due: int = 0  # 0: at once


class HandOutNote(NamedTuple):
    """Messages that went to one member or were put off. ``elsewhere``: the member is in another process."""

    spans: tuple[HandOutSpan, ...]
    elsewhere: bool = False


def notes_key(log: int, group: str) -> bytes:
    """Return the key prefix of the notes of a log and group."""
    name = group.encode()
    return log_key(log, HANDED_OUT) + _LENGTH.pack(len(name)) + name


def numbered_key(keys: bytes, number: int) -> bytes:
    """Return the key of one note under a prefix. For each message the note with the highest number counts."""
    return keys + _NUMBER.pack(number)


def note_value(note: HandOutNote) -> bytes:
    """Encode a note."""
    return _FLAGS.pack(_ELSEWHERE_FLAG * note.elsewhere) + b"".join([_SPAN.pack(*span) for span in note.spans])


def span_value(first: int, size: int, attempts: int, *, elsewhere: bool) -> bytes:
    """Encode a note of one span that is due at once, as most are."""
    return _ONE_SPAN.pack(_ELSEWHERE_FLAG * elsewhere, first, size, attempts, 0)


def read_note(value: bytes) -> HandOutNote:
    """Decode a note. Raise ``Corrupt`` if it is damaged."""
    if len(value) % _SPAN.size != _FLAGS.size:
        raise Corrupt("a hand-out note is damaged", fix="Run mqplug rocksmq repair, or restore a backup")
    spans = tuple(map(HandOutSpan._make, _SPAN.iter_unpack(value[_FLAGS.size :])))
    return HandOutNote(spans, bool(_FLAGS.unpack_from(value)[0] & _ELSEWHERE_FLAG))


def spans_of(handed: Iterable[tuple[int, int, int]]) -> tuple[HandOutSpan, ...]:
    """Return spans for messages, given as ascending (offset, attempts, due time)."""
    spans: list[HandOutSpan] = []
    for offset, attempts, due in handed:
        last = spans[-1] if spans else None
        if last and (last.first + last.size, last.attempts, last.due) == (offset, attempts, due):
            spans[-1] = last._replace(size=last.size + 1)
        else:
            spans.append(HandOutSpan(offset, 1, attempts, due))
    return tuple(spans)


class JournalContent(NamedTuple):
    """The notes in a journal by their keys, and the byte at which a damaged record begins (None: no damage)."""

    notes: dict[bytes, bytes]
    damaged: int | None


def encode_record(token: bytes, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Encode a note as the head of a record, which must be written last, and the body after it."""
    body = key + value
    tail = _HEAD_TAIL.pack(len(key), len(value), token)
    return _CRC.pack(crc32c(tail + body)) + tail, body


def read_journal(raw: bytes, token: bytes) -> JournalContent:
    """Decode the records up to the first one that is damaged or has another token."""
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
