"""Which partition a record goes to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache

Partitioner = Callable[[bytes | None, int], int]
"""From key and number of partitions to the partition. One instance serves one topic of one producer."""

_STICKY_RUN = 100


@lru_cache(maxsize=8192)
def murmur2(data: bytes) -> int:
    """Murmur2 as Kafka's Java client computes it, as an unsigned 32-bit number."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def murmur2_partitioner() -> Partitioner:
    """Same key, same partition, as Kafka's Java client; without a key, runs that stick to one partition."""
    sent = itertools.count()

    def choose(key: bytes | None, partitions: int) -> int:
        if key is None:
            return next(sent) // _STICKY_RUN % partitions
        return (murmur2(key) & 0x7FFFFFFF) % partitions

    return choose


def round_robin_partitioner() -> Partitioner:
    """As ``murmur2`` where there is a key; without one, each partition in turn."""
    sent = itertools.count()

    def choose(key: bytes | None, partitions: int) -> int:
        if key is None:
            return next(sent) % partitions
        return (murmur2(key) & 0x7FFFFFFF) % partitions

    return choose


PARTITIONERS: dict[str, Callable[[], Partitioner]] = {
    "murmur2": murmur2_partitioner,
    "round_robin": round_robin_partitioner,
}
