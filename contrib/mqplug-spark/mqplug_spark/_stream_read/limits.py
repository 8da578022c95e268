"""Decides how far the next batch reads: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger`` and ``maxTriggerDelay``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import attrs

Key = TypeVar("Key", bound=Hashable)


def shares(lags: Mapping[Key, int], most: int) -> dict[Key, int]:
    """Split ``most`` messages over partitions by their lags: exactly ``most``, if that many wait.

    Each partition that lags gets at least one, so that none starves; if more than ``most`` lag, each gets one. What is
    left of the fractions goes to the largest, and to the first of equal ones.
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
    """Holds a batch back until ``least`` messages wait, or the last batch was ``longest`` seconds ago.

    The first batch of a run is not held back.
    """

    least: int
    longest: float
    _last: float | None = None

    def holds(self, waiting: int, now: float) -> bool:
        """Return whether a batch of so many messages has to wait at this (monotonic) time."""
        if waiting == 0:
            return True
        if waiting < self.least and self._last is not None and now - self._last < self.longest:
            return True
        self._last = now
        return False
