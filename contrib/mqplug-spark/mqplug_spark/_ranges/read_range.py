"""The ranges of messages that tasks read, one each, split for ``minPartitions`` and ``maxRecordsPerPartition``.

A split depends only on the ranges and the options, so a repeated batch of a stream has the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs

from mqplug import Client, Position, Unsupported
from mqplug_spark._options.read_options import ReadOptions


class Partition(NamedTuple):
    """A partition of a topic, under the topic's name in the query. Sorts by topic and number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@attrs.frozen
class ReadRange:
    """The messages of one partition that one task reads: from ``start`` to just before ``until``."""

    topic: str
    partition: int
    start: Position
    until: Position


def split_ranges(client: Client, ranges: Sequence[ReadRange], options: ReadOptions) -> list[ReadRange]:
    """Split ranges into at least ``minPartitions``, each of at most ``maxRecordsPerPartition`` messages.

    Fewer messages than ``minPartitions`` make fewer ranges. Sizes include gaps, so ranges of a compacted topic hold
    fewer messages. Raise ``Unsupported`` if the backend cannot count by positions.
    """
    least, most = options.min_partitions, options.max_records_per_partition
    if least is None and most is None:
        return list(ranges)
    option = "minPartitions" if least is not None else "maxRecordsPerPartition"
    check_countable(client, option, operation="split a Spark read", fix=f"Remove {option}: each partition is a task")
    sizes = [_size(client, each) for each in ranges]
    parts = [1 if most is None else -(-size // most) for size in sizes]
    if least is not None and sum(parts) < least:
        parts = [max(each) for each in zip(parts, _shares(sizes, least), strict=True)]
    return [
        part for each, size, count in zip(ranges, sizes, parts, strict=True) for part in _cut(client, each, size, count)
    ]


def _size(client: Client, planned: ReadRange) -> int:
    return max(1, client.distance(planned.start, planned.until))


def _shares(sizes: Sequence[int], least: int) -> list[int]:
    """Divide ``least`` parts among ranges in proportion to their sizes: each gets one or more, up to its size."""
    total = sum(sizes)
    shares = [max(1, min(size, least * size // total)) for size in sizes]
    by_rest = sorted(range(len(sizes)), key=lambda each: (-(least * sizes[each] % total), each))
    while sum(shares) < min(least, total):
        for each in by_rest:
            if shares[each] < sizes[each] and sum(shares) < least:
                shares[each] += 1
    return shares


def _cut(client: Client, planned: ReadRange, size: int, count: int) -> list[ReadRange]:
    """Split a range into ``count`` parts whose sizes differ by at most one."""
    inner = [client.advance(planned.start, size * number // count) for number in range(1, count)]
    edges = [planned.start, *inner, planned.until]
    return [ReadRange(planned.topic, planned.partition, edges[number], edges[number + 1]) for number in range(count)]


def check_countable(client: Client, option: str, *, operation: str, fix: str) -> None:
    """Raise ``Unsupported`` for an option if the backend cannot count messages by their positions."""
    if not client.capabilities.advance:
        raise Unsupported(
            "advance", f"{option} needs positions that can be counted, which {client.backend} does not have",
            backend=client.backend, operation=operation, fix=fix,
        )  # fmt: skip
