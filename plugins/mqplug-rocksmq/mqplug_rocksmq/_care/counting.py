"""Collect the statistics of a store: from its values, from RocksDB and from the file system."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import sleep
from typing import Any, Final

from mqplug_rocksmq._engine.directory import DATABASE, read_identity
from mqplug_rocksmq._engine.disk_space import ballast_bytes
from mqplug_rocksmq._engine.rocks import Pages
from mqplug_rocksmq._format.keys import (
    GROUP,
    TIME,
    TOPIC,
    StoredPosition,
    group_of,
    log_key,
    log_of,
    read_log_value,
    read_mark,
    read_position,
)
from mqplug_rocksmq._store.staging import StagingDirectory
from mqplug_rocksmq._store.statistics import GroupStatistics, PartitionStatistics, RocksMQStatistics
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.topics import Topic

SCAN_VALUES: Final = 100
SCAN_PAUSE_S: Final = 0.0005  # between two parts of a scan
_STALLS: Final = re.compile(r"total-(delays|stops): (\d+)")


BorrowPages = Callable[[], AbstractContextManager[Pages]]
"""A function that lends the pages for one part of a scan. Writers wait for it, so each part is short."""


def closed_statistics(path: Path) -> RocksMQStatistics:
    """Return the statistics of a closed store. The caller must prevent other processes from opening it."""
    identity = read_identity(path)
    pages = Pages(path / DATABASE, read_only=True)
    try:
        return _counted(path, identity.id if identity else "", lambda: nullcontext(pages))
    finally:
        pages.close()


def statistics(store: Store) -> RocksMQStatistics:
    """Return the statistics of an open store."""
    with store.borrow_pages():
        engine = store.engine
        measured = {"writes": engine.writes.latencies(), "commits": engine.durability.commits.latencies()}
    return _counted(store.path, store.id, store.borrow_pages, pid=os.getpid(), **measured)


def _counted(path: Path, store: str, borrow: BorrowPages, **known: Any) -> RocksMQStatistics:
    """Collect statistics while others may write. Each partition is counted at one instant."""
    partitions = dict(_partitions(borrow))
    with borrow() as pages:
        delays, stops = _stalls(pages)
        known |= {"memory": _memory(pages), "pages": pages.number_property("rocksdb.estimate-num-keys")}
    return RocksMQStatistics(
        path=str(path),
        id=store,
        **_sizes(path),
        staged=StagingDirectory(path).size(),
        ballast=ballast_bytes(path),
        delays=delays,
        stops=stops,
        partitions=tuple(partitions.values()),
        groups=tuple(sorted(_groups(borrow, partitions), key=lambda each: (each.group, each.topic, each.partition))),
        **known,
    )


def _scan_parts(borrow: BorrowPages, prefix: bytes) -> Iterator[tuple[Pages, list[tuple[bytes, bytes]]]]:
    """Yield the small values with a prefix, some in each part."""
    start = b""
    while True:
        with borrow() as pages:
            piece = pages.scan(prefix, start, SCAN_VALUES)
            yield pages, piece
        if len(piece) < SCAN_VALUES:
            return
        start = piece[-1][0] + b"\0"
        sleep(SCAN_PAUSE_S)  # otherwise this thread takes the lock again before a waiting one wakes up


def _partitions(borrow: BorrowPages) -> Iterator[tuple[int, PartitionStatistics]]:
    for pages, piece in _scan_parts(borrow, TOPIC):
        for key, value in piece:
            topic = Topic.read(key, value)
            for partition, number in enumerate(topic.logs):
                yield number, _partition(pages, topic.name, partition, number)


def _partition(pages: Pages, topic: str, partition: int, number: int) -> PartitionStatistics:
    record = read_log_value(pages.get(log_key(number)) or b"")
    first = pages.scan(log_key(number, TIME), limit=1)
    before = read_mark(*first[0]).size if first else record.size
    size = 0 if record.low == record.end else record.size - before
    return PartitionStatistics(topic, partition, record.low, record.end, size)


def _groups(borrow: BorrowPages, partitions: Mapping[int, PartitionStatistics]) -> Iterator[GroupStatistics]:
    for _, piece in _scan_parts(borrow, GROUP):
        for key, value in piece:
            if partition := partitions.get(log_of(key)):
                yield _group(group_of(key), partition, read_position(value))


def _group(name: str, partition: PartitionStatistics, place: StoredPosition) -> GroupStatistics:
    position = max(place.offset, partition.low)
    acked = sum(stop - max(start, position) for start, stop in place.acked if stop > position)
    lag = max(0, partition.high - position) - acked
    return GroupStatistics(name, partition.topic, partition.partition, place.offset, max(0, lag), acked)


def _memory(pages: Pages) -> int:
    tables = sum(
        pages.number_property(name, family)
        for family in ("data", "meta")
        for name in ("rocksdb.size-all-mem-tables", "rocksdb.estimate-table-readers-mem")
    )
    return tables + pages.number_property("rocksdb.block-cache-usage")


def _stalls(pages: Pages) -> Sequence[int]:
    found = dict.fromkeys(("delays", "stops"), 0)
    for family in ("data", "meta"):
        for kind, count in _STALLS.findall(pages.text_property("rocksdb.cf-write-stall-stats", family)):
            found[kind] += int(count)
    return found["delays"], found["stops"]


def disk_used(path: Path) -> int:
    """Return the bytes that a store takes on disk."""
    size: int = _sizes(path)["disk"]
    return size


def _sizes(path: Path) -> dict[str, Any]:
    """Return the bytes of the database's files by kind. RocksDB may remove files during the count."""
    sizes = {"disk": 0, "tables": 0, "log": 0}
    for entry in os.scandir(path / DATABASE):
        with contextlib.suppress(FileNotFoundError):
            size = entry.stat().st_blocks * 512
            sizes["disk"] += size
            kind = {".sst": "tables", ".log": "log"}.get(Path(entry.name).suffix)
            if kind:
                sizes[kind] += size
    return sizes
