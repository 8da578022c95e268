"""What top knows: the latest sample, how rates went before it, and since when there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import attrs

from mqplug_cli._top.sample import EMPTY, GroupKey, Sample

HISTORY: Final = 120  # samples: four minutes at the default interval

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Outage:
    """There is no sample since a moment, for this reason."""

    since: float
    reason: str
    error: Exception


class RateHistory(Generic[K]):
    """The last rates of many things, of those alone that there still are."""

    def __init__(self) -> None:
        self._rates: dict[K, deque[float | None]] = {}

    def add(self, rates: Iterable[tuple[K, float | None]]) -> None:
        """Add the newest rate of each thing, and forget the others."""
        known = self._rates
        self._rates = {}
        for key, rate in rates:
            self._rates[key] = known.get(key) or deque(maxlen=HISTORY)
            self._rates[key].append(rate)

    def of(self, key: K) -> Sequence[float | None]:
        """Return the rates of a thing, oldest first."""
        return tuple(self._rates.get(key, ()))


class Model:
    """What is known of a backend, sample by sample."""

    def __init__(self) -> None:
        self.sample: Sample = EMPTY
        self.samples = 0
        self.outage: Outage | None = None
        self.stored: RateHistory[str] = RateHistory()
        self.passed: RateHistory[GroupKey] = RateHistory()

    def add(self, sample: Sample) -> None:
        """Take a sample in. It ends an outage."""
        self.sample = sample
        self.samples += 1
        self.outage = None
        self.stored.add((name, topic.rate) for name, topic in sample.topics.items())
        self.passed.add((key, group.rate) for key, group in sample.groups.items())

    def fail(self, error: Exception, reason: str, now: float) -> None:
        """Note that a sample failed. What was known before stays."""
        self.outage = Outage(self.outage.since if self.outage else now, reason, error)

    @property
    def failure(self) -> Exception | None:
        """Why the last sample failed, if it did."""
        return self.outage.error if self.outage else None

    @property
    def rate_in(self) -> float | None:
        """Messages stored per second in all topics where that is known, or None if it is known of none."""
        return _sum(topic.rate for topic in self.sample.topics.values())

    @property
    def rate_out(self) -> float | None:
        """Messages per second that all groups pass."""
        return _sum(group.rate for group in self.sample.groups.values())


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
