"""Applies the limits of a query to its backlog."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mqplug import Client, Position
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.countable import check_countable
from mqplug_spark._stream_read.backlog import Backlog, Count
from mqplug_spark._stream_read.limits import BatchDelay, shares
from mqplug_spark._stream_read.stream_offsets import Partition

Found = Mapping[Partition, Backlog]
Ends = dict[Partition, Position]


def everything(found: Found) -> Ends:
    """Return the ends of a batch without limits."""
    return {partition: backlog.until for partition, backlog in found.items()}


def at_most(client: Client, found: Found, most: int) -> Ends:
    """Return the ends of a batch of ``most`` messages, split by what waits in each partition."""
    counts = shares(_waiting(client, found), most)
    return {partition: _end(client, backlog, counts.get(partition, 0)) for partition, backlog in found.items()}


def is_held(client: Client, found: Found, delay: BatchDelay) -> bool:
    """Return whether the batch waits for more messages, or for its longest delay to pass."""
    return delay.holds(sum(_waiting(client, found).values()), time.monotonic())


def limits_of(options: ReadOptions) -> list[str]:
    """Return the names of the limits that the options set."""
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    return [name for name, limit in limits.items() if limit is not None]


def check_limits(client: Client, options: ReadOptions) -> None:
    """Raise ``Unsupported`` with the name of a limit that this backend cannot keep."""
    if limits := limits_of(options):
        check_countable(client, limits[0], operation="plan a stream", fix=f"Leave {' and '.join(limits)} out")


def counting(client: Client) -> Count | None:
    """Return the function that counts the messages between two positions; None where the backend has none."""
    return client.distance if client.capabilities.advance else None


def _waiting(client: Client, found: Found) -> dict[Partition, int]:
    return {partition: client.distance(each.begin, each.until) for partition, each in found.items()}


def _end(client: Client, backlog: Backlog, count: int) -> Position:
    return min(client.advance(backlog.begin, count), backlog.until)
