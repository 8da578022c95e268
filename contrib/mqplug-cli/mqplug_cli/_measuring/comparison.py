"""Differences of two topics: the first one in a partition, or messages that only one topic has in any partition.

To compare regardless of partitions, a topic is reduced to sums in buckets, so that memory does not grow with the
messages, and to the order of the messages of each key. If sums differ, a second reading looks only at a few of those
buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import attrs

import mqplug
from mqplug_cli._measuring.checksums import DIGEST_BYTES, column_of, message_digests

EXCERPT_CHARACTERS = 40


@attrs.frozen
class Difference:
    """The first pair of messages that differ. ``number`` counts from 0; an id is None where a side has ended."""

    partition: int
    number: int
    ids: tuple[mqplug.MessageId | None, mqplug.MessageId | None]
    fields: tuple[str, ...] = ()
    excerpts: tuple[str, str] = ("", "")  # of the first of the fields

    def __str__(self) -> str:
        where = f"partition {self.partition}, message {self.number:,}"
        mine, other = self.ids
        if mine is None or other is None:
            which, present = ("first", mine) if mine is not None else ("second", other)
            return f"{where}: only the {which} topic has it, as {present}"
        said = " against ".join(self.excerpts)
        return f"{where}: different {' and '.join(self.fields)}: {said} ({mine} against {other})"


def first_difference(
    partition: int, mine: Iterator[mqplug.Batch], other: Iterator[mqplug.Batch], fields: Sequence[str]
) -> Difference | None:
    """Return the first difference of two runs of messages, or None."""
    left, right = _Cursor(mine), _Cursor(other)
    number = 0
    while True:
        size = min(left.fill(), right.fill())
        if size == 0:
            break
        row = _first_row(left, right, size, fields)
        if row is not None:
            return _difference(partition, number + row, left.skip(row), right.skip(row), fields)
        left.skip(size)
        right.skip(size)
        number += size
    ids = left.id, right.id
    return Difference(partition, number, ids) if ids != (None, None) else None


class _Cursor:
    """A place in a run of batches."""

    def __init__(self, batches: Iterator[mqplug.Batch]) -> None:
        self._batches = batches
        self._batch = next(batches, None)
        self._row = 0

    def fill(self) -> int:
        """Return the number of messages at hand; 0 only at the end."""
        if self._batch is not None and self._row == len(self._batch):
            self._batch, self._row = next(self._batches, None), 0
        return 0 if self._batch is None else len(self._batch) - self._row

    def skip(self, count: int) -> _Cursor:
        self._row += count
        return self

    def column(self, field: str, size: int) -> Sequence[object]:
        return () if self._batch is None else column_of(self._batch, field)[self._row : self._row + size]

    @property
    def id(self) -> mqplug.MessageId | None:
        return None if self._batch is None else self._batch.id(self._row)


def _first_row(left: _Cursor, right: _Cursor, size: int, fields: Sequence[str]) -> int | None:
    rows = []
    for field in fields:
        mine, other = left.column(field, size), right.column(field, size)
        if mine != other:
            rows.append(next(row for row in range(size) if mine[row] != other[row]))
    return min(rows, default=None)


def _difference(partition: int, number: int, left: _Cursor, right: _Cursor, fields: Sequence[str]) -> Difference:
    pairs = {field: (left.column(field, 1)[0], right.column(field, 1)[0]) for field in fields}
    unlike = tuple(field for field, (mine, other) in pairs.items() if mine != other)
    mine, other = pairs[unlike[0]]
    return Difference(partition, number, (left.id, right.id), unlike, (_excerpt(mine), _excerpt(other)))


def _excerpt(value: object) -> str:
    text = repr(value[: 2 * EXCERPT_CHARACTERS] if isinstance(value, bytes) else value)
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[:EXCERPT_CHARACTERS]}…"


BUCKETS: Final = 65_536
NAMED_BUCKETS: Final = 16  # how many of the differing buckets are looked at again
NAMED_MESSAGES: Final = 5
KEYS_MAX: Final = 500_000  # about 100 MB
_MODULUS: Final = 1 << (8 * DIGEST_BYTES)


class Contents:
    """The messages of a topic as sums, and the order of the messages of each key."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = fields
        self._sums = [0] * BUCKETS
        self._chains: dict[int, dict[int, int]] = {}  # by partition and key: a hash of its messages in order
        self._keys = 0

    def add(self, batch: mqplug.Batch) -> None:
        """Add the messages of a batch."""
        sums, digests = self._sums, list(message_digests(batch, self._fields))
        for digest in digests:
            bucket = _bucket(digest)
            sums[bucket] = (sums[bucket] + int.from_bytes(digest)) % _MODULUS
        if self.knows_keys and "key" in self._fields:
            self._add_keys(batch, digests)

    @property
    def knows_keys(self) -> bool:
        """Whether there are few enough keys to compare their order."""
        return self._keys <= KEYS_MAX

    def unlike_buckets(self, other: Contents) -> list[int]:
        """Return the buckets whose messages differ."""
        return [bucket for bucket in range(BUCKETS) if self._sums[bucket] != other._sums[bucket]]

    def unlike_keys(self, other: Contents) -> set[int]:
        """Return the hashes of the keys whose messages are in a different order.

        The order of a key that a topic has in several partitions is not compared.
        """
        mine, theirs = self._ordered_keys(), other._ordered_keys()
        return {key for key in mine.keys() & theirs.keys() if mine[key] != theirs[key]}

    def _add_keys(self, batch: mqplug.Batch, digests: Iterable[bytes]) -> None:
        chains = self._chains.setdefault(batch.log.partition, {})
        before = len(chains)
        for key, digest in zip(batch.keys, digests, strict=True):
            if key is not None:
                name = hash(key)
                chains[name] = hash((chains.get(name, 0), digest))
        self._keys += len(chains) - before
        if not self.knows_keys:
            self._chains.clear()

    def _ordered_keys(self) -> dict[int, int]:
        spread = Counter(key for chains in self._chains.values() for key in chains)
        return {key: chain for chains in self._chains.values() for key, chain in chains.items() if spread[key] == 1}


class NamedMessages:
    """The messages of a few buckets, with an id of each, and the keys of a few hashes."""

    def __init__(self, fields: Sequence[str], buckets: Sequence[int], keys: Iterable[int]) -> None:
        self._fields = fields
        self._buckets = frozenset(buckets[:NAMED_BUCKETS])
        self._wanted = frozenset(islice(keys, NAMED_MESSAGES))
        self._counts: Counter[bytes] = Counter()
        self._ids: dict[bytes, mqplug.MessageId] = {}
        self.keys: set[bytes] = set()

    def add(self, batch: mqplug.Batch) -> None:
        """Add the wanted messages of a batch."""
        for row, digest in enumerate(message_digests(batch, self._fields) if self._buckets else ()):
            if _bucket(digest) in self._buckets:
                self._counts[digest] += 1
                self._ids[digest] = batch.id(row)
        if self._wanted:
            self.keys.update(key for key in batch.keys if key is not None and hash(key) in self._wanted)

    def beyond(self, other: NamedMessages) -> Iterator[tuple[mqplug.MessageId, int]]:
        """Iterate over ids of messages that the other topic lacks, with the number of each."""
        for digest, count in islice((self._counts - other._counts).items(), NAMED_MESSAGES):
            yield self._ids[digest], count


def _bucket(digest: bytes) -> int:
    return int.from_bytes(digest[:2])
