"""How long something takes, counted in buckets: cheap enough for every write."""

from __future__ import annotations

from typing import Final

import attrs

_BUCKET_COUNT: Final = 36  # the last one begins at nine hours


@attrs.frozen
class Latencies:
    """How often something happened, and how long it took, in seconds.

    ``buckets`` has pairs of an upper bound and how often it took that long at most, and longer than the bound before.
    """

    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    buckets: tuple[tuple[float, int], ...] = ()

    def percentile(self, percent: float) -> float:
        """Return an upper bound of what so many of a hundred took, at most twice as long as the truth."""
        wanted = self.count * percent / 100
        for bound, count in self.buckets:
            wanted -= count
            if wanted <= 0:
                return min(bound, self.longest)
        return self.longest


class LatencyRecorder:
    """Counts. One thread at a time adds; any may look."""

    __slots__ = ("_counts", "_longest", "_total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKET_COUNT
        self._total = self._longest = 0.0

    def add(self, seconds: float) -> None:
        """Count something that took so long."""
        bucket = int(seconds * 1e6).bit_length()
        self._counts[bucket if bucket < _BUCKET_COUNT else -1] += 1
        self._total += seconds
        if seconds > self._longest:
            self._longest = seconds

    def latencies(self) -> Latencies:
        """Return what was counted so far."""
        counts = list(self._counts)
        buckets = tuple((2**bits / 1e6, count) for bits, count in enumerate(counts) if count)
        return Latencies(sum(counts), self._total, self._longest, buckets)
