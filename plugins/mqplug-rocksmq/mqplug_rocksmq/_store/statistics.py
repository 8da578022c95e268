"""What a store holds and how it does: ``client.unwrap(RocksMQStatistics)``, and ``mqplug rocksmq stats``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from mqplug_rocksmq._engine.latency import Latencies


@attrs.frozen
class PartitionStatistics:
    """A partition: what it retains, from ``low`` up to ``high``. ``size`` is in bytes, before compression."""

    topic: str
    partition: int
    low: int
    high: int
    size: int


@attrs.frozen
class GroupStatistics:
    """A group in one partition: its position, how many messages lie behind it, and how many of those are acked."""

    group: str
    topic: str
    partition: int
    position: int
    lag: int
    acked: int


@attrs.frozen
class RocksMQStatistics:
    """A store at one moment. Sizes are in bytes, times in seconds.

    ``disk`` is what the database takes; of that ``tables`` and ``log`` (RocksDB's write-ahead log). ``staged`` is what
    waits beside it to be taken in, and ``ballast`` what is held for when the disk is full. ``memory`` is what
    RocksDB takes. ``pages`` is RocksDB's estimate. Since the store was opened, ``writes`` tells how long RocksDB took
    for each write, ``commits`` how long it took until what was written first was on disk, and ``delays`` and ``stops``
    how often RocksDB held writers up because it could not keep pace. Of a closed store only what is stored is known.
    """

    path: str
    id: str
    pid: int | None = None
    disk: int = 0
    tables: int = 0
    log: int = 0
    staged: int = 0
    ballast: int = 0
    memory: int = 0
    pages: int = 0
    writes: Latencies = attrs.field(factory=Latencies)
    commits: Latencies = attrs.field(factory=Latencies)
    delays: int = 0
    stops: int = 0
    partitions: tuple[PartitionStatistics, ...] = ()
    groups: tuple[GroupStatistics, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as what JSON has, with percentiles."""
        found: dict[str, Any] = attrs.asdict(self)
        for name in ("writes", "commits"):
            taken: Latencies = getattr(self, name)
            found[name] |= {"p50": taken.percentile(50), "p99": taken.percentile(99)}
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RocksMQStatistics:
        """Return what ``as_json`` was made of."""
        lists: dict[str, Any] = {
            "partitions": tuple(PartitionStatistics(**each) for each in found["partitions"]),
            "groups": tuple(GroupStatistics(**each) for each in found["groups"]),
            "writes": _latencies(found["writes"]),
            "commits": _latencies(found["commits"]),
        }
        return cls(**{**found, **lists})


def _latencies(found: Mapping[str, Any]) -> Latencies:
    buckets = tuple((float(bound), int(count)) for bound, count in found["buckets"])
    return Latencies(found["count"], found["total"], found["longest"], buckets)
