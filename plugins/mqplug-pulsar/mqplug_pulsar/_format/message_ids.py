"""Pulsar's message ids as coordinates, and back.

A message has the coordinates (ledger, entry, index in its batch), with index -1 if it was not batched. A chunked
message is found at the entry of its last chunk, and has ledger and entry of its first chunk as two more numbers. The
partition is not taken from the client's id, which has it after some calls and not after others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from mqplug.spi import Numbers
from mqplug_pulsar._format.binary_protocol import fields

LOG_BEGIN: Numbers = (0, 0, -1)
MAX_LEDGER = 2**63 - 1
INDEX_MAX = 2**31 - 1
_BATCH_SIZE, _FIRST_CHUNK = 6, 7  # field numbers of Pulsar's MessageIdData
_LEDGER, _ENTRY = 1, 2
_BYTES = 2  # the wire type of a nested message
_FIRST_CHUNK_TAG = bytes((_FIRST_CHUNK << 3 | _BYTES,))


def coordinates(native: Any) -> Numbers:
    """Return the coordinates of one of the client's ids."""
    index = native.batch_index()
    place = (native.ledger_id(), native.entry_id(), index)
    if index >= 0:
        return place
    data = native.serialize()
    chunk = fields(data).get(_FIRST_CHUNK) if _FIRST_CHUNK_TAG in data else None
    if not isinstance(chunk, bytes):
        return place
    first = fields(chunk)
    return (*place, int(first[_LEDGER]), int(first[_ENTRY]))


def detail(native: Any) -> Numbers:
    """Return the size of a message's batch, which is needed to compute the next position; empty without a batch."""
    if native.batch_index() < 0:
        return ()
    return batch_size(native.serialize())


def places_in_order(natives: Sequence[Any]) -> tuple[list[Numbers], list[Numbers]] | None:
    """Return coordinates and detail of messages that one producer sent in this order; None unless all have an id.

    Consecutive messages of a batch are recognized by the first and the last id; the ids between are not read.
    """
    places: list[Numbers] = []
    details: list[Numbers] = []
    while (row := len(places)) < len(natives):
        place, size = coordinates(natives[row]), detail(natives[row])
        if place[0] < 0:
            return None
        ledger, entry, index = place[:3]
        count = min(size[0] - index, len(natives) - row) if size else 1
        if count > 1 and coordinates(natives[row + count - 1]) == (ledger, entry, index + count - 1):
            places.extend((ledger, entry, number) for number in range(index, index + count))
        else:
            count = 1
            places.append(place)
        details.extend(repeat(size, count))
    return places, details


def batch_size(data: bytes) -> Numbers:
    """Return the batch size in a serialized id; empty if it has none."""
    if data[-1] < 0x80:  # the size comes last, so one of these two forms nearly always fits
        if data[-2] == _BATCH_SIZE << 3:
            return (data[-1],)
        if data[-3] == _BATCH_SIZE << 3 and data[-2] >= 0x80:
            return (data[-2] & 0x7F | data[-1] << 7,)
    size = fields(data).get(_BATCH_SIZE, 0)
    return (int(size),) if size else ()


def position_after(place: Numbers, size: Numbers) -> Numbers:
    """Return the position right after a message with these coordinates and this detail."""
    ledger, entry, index = place[:3]
    if index < 0 or (size and index + 1 >= size[0]):
        return (ledger, entry + 1, -1)
    return (ledger, entry, index + 1)


def follows(place: Numbers, position: Numbers | None) -> bool:
    """Return whether this is the message at a position, with no other in between."""
    return position is not None and place[:2] == position[:2] and max(place[2], 0) == max(position[2], 0)


def is_possible(place: Numbers) -> bool:
    """Return whether an id or a position can have these coordinates. ``MAX_LEDGER`` means the end of a topic."""
    match place:
        case (ledger, entry, index):
            return 0 <= ledger < MAX_LEDGER and 0 <= entry < MAX_LEDGER and -1 <= index < INDEX_MAX
        case (ledger, entry, -1, first, first_entry):
            return all(0 <= each < MAX_LEDGER for each in (ledger, entry, first, first_entry))
    return False


def position_before(place: Numbers) -> Numbers:
    """Return the position right before a message. For the first of a batch it is the start of the entry."""
    return place if place[2] > 0 else (*place[:2], -1, *place[3:])


def start_of(position: Numbers) -> tuple[int, int, int]:
    """Return the ledger, entry and index at which reading must begin to receive the message at a position."""
    if len(position) == 5:
        return (position[3], position[4], -1)
    return (position[0], position[1], position[2])
