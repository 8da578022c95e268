"""How far the next batch reads: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger`` and ``maxTriggerDelay``."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import TypeVar

import attrs

from mqplug import Client, Position
from mqplug_spark._options.read_options import ReadOptions
from mqplug_spark._ranges.read_range import Partition, check_countable
from mqplug_spark._stream_read.backlog import Backlog, Count

Key = TypeVar("Key", bound=Hashable)

Found = Mapping[Partition, Backlog]
Ends = dict[Partition, Position]


def shares(lags: Mapping[Key, int], most: int) -> dict[Key, int]:
    """Divide ``most`` messages among partitions in proportion to their lags: exactly ``most``, if that many wait.

    Each lagging partition gets at least one, so that none starves; if more than ``most`` partitions lag, each gets one.
    The remainder goes to the largest fractions, and to the first of equal ones.
    """
    lags = {key: lag for key, lag in lags.items() if lag > 0}
    total = sum(lags.values())
    if total <= most:
        return lags
    if most <= len(lags):
        return dict.fromkeys(lags, 1)
    spare, weight = most - len(lags), total - len(lags)
    parts = {key: divmod((lag - 1) * spare, weight) for key, lag in lags.items()}
    largest = sorted(parts, key=lambda key: parts[key][1], reverse=True)
    rounded_up = set(largest[: spare - sum(whole for whole, _ in parts.values())])
    return {key: 1 + whole + (key in rounded_up) for key, (whole, _) in parts.items()}


@attrs.define
class BatchDelay:
    """The delay of a batch until ``least`` messages wait, or the last batch was ``longest`` seconds ago.

    The first batch of a run is not delayed.
    """

    least: int
    longest: float
    _last: float | None = None

    def holds(self, waiting: int, now: float) -> bool:
        """Return whether a batch of ``waiting`` messages must wait at the monotonic time ``now``."""
        if waiting == 0:
            return True
        if waiting < self.least and self._last is not None and now - self._last < self.longest:
            return True
        self._last = now
        return False


def everything(found: Found) -> Ends:
    """Return the ends of a batch without limits."""
    return {partition: backlog.until for partition, backlog in found.items()}


def at_most(client: Client, found: Found, most: int) -> Ends:
    """Return the ends of a batch of ``most`` messages, divided by the lag of each partition."""
    counts = shares(_waiting(client, found), most)
    return {partition: _end(client, backlog, counts.get(partition, 0)) for partition, backlog in found.items()}


def is_held(client: Client, found: Found, delay: BatchDelay) -> bool:
    """Return whether the batch must wait for more messages, or for its longest delay to pass."""
    return delay.holds(sum(_waiting(client, found).values()), time.monotonic())


def limits_of(options: ReadOptions) -> list[str]:
    """Return the names of the limits that the options set."""
    limits = {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
    }
    return [name for name, limit in limits.items() if limit is not None]


def check_limits(client: Client, options: ReadOptions) -> None:
    """Raise ``Unsupported`` for a limit that this backend cannot keep."""
    if limits := limits_of(options):
        check_countable(client, limits[0], operation="plan a stream", fix=f"Remove {' and '.join(limits)}")


def counting(client: Client) -> Count | None:
    """Return the function that counts the messages between two positions; None if the backend cannot count."""
    return client.distance if client.capabilities.advance else None


def _waiting(client: Client, found: Found) -> dict[Partition, int]:
    return {partition: client.distance(each.begin, each.until) for partition, each in found.items()}


def _end(client: Client, backlog: Backlog, count: int) -> Position:
    return min(client.advance(backlog.begin, count), backlog.until)
