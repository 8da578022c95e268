"""Splits ranges for ``minPartitions`` and ``maxRecordsPerPartition``.

The result follows from the ranges alone, so a batch of a stream that runs again has the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqplug import Client, Position
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.countable import check_countable
from mqplug_spark._ranges.read_range import ReadRange


def split_ranges(client: Client, ranges: Sequence[ReadRange], options: ReadOptions) -> list[ReadRange]:
    """Return the same messages in ranges of at most ``maxRecordsPerPartition``, and at least ``minPartitions`` ranges.

    There are fewer if there are fewer messages. Sizes are counted with gaps, so ranges of a compacted topic are
    smaller. Raise ``Unsupported`` where the backend cannot compute with positions.
    """
    least, most = options.min_partitions, options.max_records_per_partition
    if least is None and most is None:
        return list(ranges)
    option = "minPartitions" if least is not None else "maxRecordsPerPartition"
    check_countable(client, option, operation="split a Spark read", fix=f"Leave {option} out: each partition is a task")
    sizes = [_size(client, each) for each in ranges]
    parts = [1 if most is None else -(-size // most) for size in sizes]
    if least is not None and sum(parts) < least:
        parts = [max(each) for each in zip(parts, _shares(sizes, least), strict=True)]
    return [
        part for each, size, count in zip(ranges, sizes, parts, strict=True) for part in _cut(client, each, size, count)
    ]


def _size(client: Client, planned: ReadRange) -> int:
    return max(1, client.distance(Position.parse(planned.start), Position.parse(planned.until)))


def _shares(sizes: Sequence[int], least: int) -> list[int]:
    """Return how many parts each range gets, by its size: ``least`` in all, one at least, no more than its messages."""
    total = sum(sizes)
    shares = [max(1, min(size, least * size // total)) for size in sizes]
    by_rest = sorted(range(len(sizes)), key=lambda each: (-(least * sizes[each] % total), each))
    while sum(shares) < min(least, total):
        for each in by_rest:
            if shares[each] < sizes[each] and sum(shares) < least:
                shares[each] += 1
    return shares


def _cut(client: Client, planned: ReadRange, size: int, count: int) -> list[ReadRange]:
    """Return a range in so many parts of the same size, give or take one."""
    start = Position.parse(planned.start)
    inner = [str(client.advance(start, size * number // count)) for number in range(1, count)]
    edges = [planned.start, *inner, planned.until]
    return [ReadRange(planned.topic, planned.partition, edges[number], edges[number + 1]) for number in range(count)]
