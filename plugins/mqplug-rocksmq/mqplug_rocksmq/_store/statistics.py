"""Statistics of a store, for ``client.unwrap(RocksMQStatistics)`` and ``mqplug rocksmq stats``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from mqplug_rocksmq._engine.clock import Latencies


@attrs.frozen
class PartitionStatistics:
    """The messages that a partition retains, from ``low`` up to ``high``. ``size`` is in bytes, before compression."""

    topic: str
    partition: int
    low: int
    high: int
    size: int


@attrs.frozen
class GroupStatistics:
    """A group in one partition: its position, the number of unacked messages, and of acked ones after the position."""

    group: str
    topic: str
    partition: int
    position: int
    lag: int
    acked: int


@attrs.frozen
class RocksMQStatistics:
    """The statistics of a store at one moment. Sizes are in bytes, times in seconds.

    ``disk`` is the size of the database, including ``tables`` and ``log`` (RocksDB's write-ahead log). ``staged`` is
    the size of staged files that are not ingested yet, ``ballast`` the space reserved for a full disk, and ``memory``
    RocksDB's memory. ``pages`` is RocksDB's estimate. Since the store was opened, ``writes`` has the latency of each
    write to RocksDB, ``commits`` the time from the first unsynced write to its sync, and ``delays`` and ``stops`` count
    how often RocksDB slowed or stopped writers. For a closed store, only the stored values are known.
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
        """Return the statistics as JSON values, with percentiles."""
        found: dict[str, Any] = attrs.asdict(self)
        for name in ("writes", "commits"):
            taken: Latencies = getattr(self, name)
            found[name] |= {"p50": taken.percentile(50), "p99": taken.percentile(99)}
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RocksMQStatistics:
        """Return the statistics from the result of ``as_json``."""
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
