"""Counting what a store holds: as it knows, as RocksDB knows, and as the file system does."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mqplug_rocksmq._layout import (
    GROUP,
    LOG,
    TIME,
    TOPIC,
    LogRecord,
    Place,
    group_of,
    log_key,
    log_of,
    read_log_value,
    read_mark,
    read_place,
)
from mqplug_rocksmq._pages import Pages
from mqplug_rocksmq._site import DATABASE, read_identity
from mqplug_rocksmq._statistics import GroupStatistics, PartitionStatistics, RocksMQStatistics
from mqplug_rocksmq._topics import Topic

_STALLS: Final = re.compile(r"total-(delays|stops): (\d+)")


def closed_statistics(path: Path) -> RocksMQStatistics:
    """Count what a store holds that nobody has open, and that nobody can open meanwhile."""
    identity = read_identity(path)
    pages = Pages(path / DATABASE, read_only=True)
    try:
        return statistics(path, identity.id if identity else "", pages)
    finally:
        pages.close()


def statistics(path: Path, store: str, pages: Pages, **known: Any) -> RocksMQStatistics:
    """Count. Nothing may write meanwhile."""
    topics = [Topic.read(key, value) for key, value in pages.scan(TOPIC)]
    logs = {log_of(key): read_log_value(value) for key, value in pages.scan(LOG)}
    partitions = {number: each for topic in topics for number, each in _partitions(pages, topic, logs)}
    places = [(log_of(key), group_of(key), read_place(value)) for key, value in pages.scan(GROUP)]
    groups = [_group(name, partitions[log], place) for log, name, place in places if log in partitions]
    delays, stops = _stalls(pages)
    return RocksMQStatistics(
        path=str(path),
        id=store,
        **_sizes(path),
        memory=_memory(pages),
        pages=pages.number("rocksdb.estimate-num-keys"),
        delays=delays,
        stops=stops,
        partitions=tuple(partitions.values()),
        groups=tuple(sorted(groups, key=lambda each: (each.group, each.topic, each.partition))),
        **known,
    )


def _partitions(pages: Pages, topic: Topic, logs: Mapping[int, LogRecord]) -> Iterator[tuple[int, PartitionStatistics]]:
    for partition, number in enumerate(topic.logs):
        record = logs[number]
        first = pages.scan(log_key(number, TIME), limit=1)
        before = read_mark(*first[0]).size if first else record.size
        size = 0 if record.low == record.end else record.size - before
        yield number, PartitionStatistics(topic.name, partition, record.low, record.end, size)


def _group(name: str, stands: PartitionStatistics, place: Place) -> GroupStatistics:
    position = max(place.offset, stands.low)
    acked = sum(stop - max(start, position) for start, stop in place.acked if stop > position)
    lag = max(0, stands.high - position) - acked
    return GroupStatistics(name, stands.topic, stands.partition, place.offset, max(0, lag), acked)


def _memory(pages: Pages) -> int:
    tables = sum(
        pages.number(name, family)
        for family in ("data", "meta")
        for name in ("rocksdb.size-all-mem-tables", "rocksdb.estimate-table-readers-mem")
    )
    return tables + pages.number("rocksdb.block-cache-usage")


def _stalls(pages: Pages) -> Sequence[int]:
    found = dict.fromkeys(("delays", "stops"), 0)
    for family in ("data", "meta"):
        for kind, count in _STALLS.findall(pages.text("rocksdb.cf-write-stall-stats", family)):
            found[kind] += int(count)
    return found["delays"], found["stops"]


def disk_used(path: Path) -> int:
    """Return what a store takes on disk."""
    size: int = _sizes(path)["disk"]
    return size


def _sizes(path: Path) -> dict[str, Any]:
    """What the files of the database take. RocksDB may remove some while we look."""
    sizes = {"disk": 0, "tables": 0, "log": 0}
    for entry in os.scandir(path / DATABASE):
        with contextlib.suppress(FileNotFoundError):
            size = entry.stat().st_blocks * 512
            sizes["disk"] += size
            kind = {".sst": "tables", ".log": "log"}.get(Path(entry.name).suffix)
            if kind:
                sizes[kind] += size
    return sizes
