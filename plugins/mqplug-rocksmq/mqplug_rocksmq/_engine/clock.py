"""Times in a store: the wall clock in milliseconds, and histograms of how long operations took."""

from __future__ import annotations

import time
from typing import Final

import attrs

_BUCKET_COUNT: Final = 36  # the last one begins at nine hours


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@attrs.frozen
class Latencies:
    """A latency histogram: the number of events and their durations in seconds.

    ``buckets`` has pairs of an upper bound and a count of the events up to it and above the previous bound.
    """

    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    buckets: tuple[tuple[float, int], ...] = ()

    def percentile(self, percent: float) -> float:
        """Return an upper bound of a percentile, at most twice its true value."""
        wanted = self.count * percent / 100
        for bound, count in self.buckets:
            wanted -= count
            if wanted <= 0:
                return min(bound, self.longest)
        return self.longest


class LatencyRecorder:
    """Counts durations. One thread at a time may add; any thread may read."""

    __slots__ = ("_counts", "_longest", "_total")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKET_COUNT
        self._total = self._longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        bucket = int(seconds * 1e6).bit_length()
        self._counts[bucket if bucket < _BUCKET_COUNT else -1] += 1
        self._total += seconds
        if seconds > self._longest:
            self._longest = seconds

    def latencies(self) -> Latencies:
        """Return the histogram so far."""
        counts = list(self._counts)
        buckets = tuple((2**bits / 1e6, count) for bits, count in enumerate(counts) if count)
        return Latencies(sum(counts), self._total, self._longest, buckets)
