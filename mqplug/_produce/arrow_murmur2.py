"""Murmur2 of a whole column of keys, computed by Arrow for all keys of one length at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as functions

from mqplug._produce.routing import MURMUR2_FACTOR, MURMUR2_SEED

pc: Any = functions  # pyarrow generates them at import, so type checkers know few of them

KEYS_OF_A_LENGTH = 150  # on average; for fewer, hashing the keys one by one is as fast
_WORD = 4


def partitions_by_murmur2(keys: pa.Array, partitions: int) -> list[int] | None:
    """Return the partition of each key, none of which is null; None if too few keys have the same length."""
    if len(keys) < KEYS_OF_A_LENGTH:
        return None
    lengths = pc.binary_length(keys)
    found = pc.unique(lengths).to_pylist()
    if len(found) * KEYS_OF_A_LENGTH > len(keys):
        return None
    if len(found) == 1:
        hashes = _hashes(keys, found[0])
    else:
        rows = [pc.indices_nonzero(pc.equal(lengths, length)) for length in found]
        parts = [_hashes(keys.take(some), length) for some, length in zip(rows, found, strict=True)]
        hashes = pa.concat_arrays(parts).take(pc.array_sort_indices(pa.concat_arrays(rows)))
    positive = pc.bit_wise_and(hashes, _number(0x7FFFFFFF))
    count = _number(partitions)
    chosen: list[int] = pc.subtract(positive, pc.multiply(pc.divide(positive, count), count)).to_pylist()
    return chosen


def _hashes(keys: pa.Array, length: int) -> pa.Array:
    """Return the hashes of keys of one length. Arrow's products of 32 bits wrap around, as the hash needs."""
    factor, whole = _number(MURMUR2_FACTOR), length - length % _WORD
    hashes = pa.repeat(_number(MURMUR2_SEED ^ length), len(keys))
    for start in range(0, whole, _WORD):
        words = _mixed(pc.multiply(_words(keys, start, _WORD), factor), 24)
        hashes = pc.bit_wise_xor(pc.multiply(hashes, factor), pc.multiply(words, factor))
    if whole < length:
        hashes = pc.multiply(pc.bit_wise_xor(hashes, _words(keys, whole, length - whole)), factor)
    return _mixed(pc.multiply(_mixed(hashes, 13), factor), 15)


def _words(keys: pa.Array, start: int, size: int) -> pa.Array:
    """Return up to four bytes of each key as a number, the first byte as its lowest."""
    cut = pc.binary_slice(keys, start, start + size)
    if size < _WORD:
        cut = pc.binary_join_element_wise(cut, pa.scalar(bytes(_WORD - size), cut.type), pa.scalar(b"", cut.type))
    return cut.cast(pa.binary(_WORD)).view(pa.uint32())


def _mixed(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, _number(bits)))


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint32())
