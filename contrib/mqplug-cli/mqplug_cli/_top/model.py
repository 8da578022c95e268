"""State of ``mqplug top``: its subject, the latest sample, the history of rates, and the current outage."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

import mqplug


@attrs.frozen
class Subject:
    """A client, its name for people (without secrets), and the words that name it on a command line."""

    client: mqplug.Client
    shown: str
    words: Sequence[str] = ()
    timeout: float = 30
    read_only: bool = False


GroupKey: TypeAlias = tuple[str, str]
"""The names of a group and of a topic."""


@attrs.frozen
class TopicSample:
    """A topic's partitions at a moment.

    ``rates`` are the messages stored per second since the previous sample, by partition, if known.
    """

    at: float
    marks: Mapping[int, mqplug.Watermarks]
    rates: Mapping[int, float] | None = None

    @property
    def messages(self) -> int:
        """The number of retained messages, as far as the backend counts them."""
        return sum(marks.count for marks in self.marks.values())

    @property
    def exact(self) -> bool:
        """Whether the numbers of messages are exact."""
        return all(marks.exact for marks in self.marks.values())

    @property
    def rate(self) -> float | None:
        """Messages stored per second, in all partitions."""
        return None if self.rates is None else sum(self.rates.values())


@attrs.frozen
class GroupSample:
    """A group's lag on a topic at a moment, by partition, and the messages per second that it passed, if known.

    ``positions`` are None if the backend does not count between positions.
    """

    at: float
    lag: Mapping[int, int]
    positions: Mapping[int, mqplug.Position] | None = None
    rate: float | None = None

    @property
    def behind(self) -> int:
        """The number of messages the group has yet to read, in all partitions."""
        return sum(self.lag.values())


@attrs.frozen
class Sample:
    """All topics and groups at a moment, in seconds of a monotonic clock.

    ``members`` has the number of each group's members, or None if the backend does not report it. A group is in
    ``groups`` once for each topic where it has a position, once it was queried; ``unasked`` groups never were.
    """

    at: float
    topics: Mapping[str, TopicSample]
    members: Mapping[str, int | None] = attrs.field(factory=dict)
    groups: Mapping[GroupKey, GroupSample] = attrs.field(factory=dict)
    unasked: int = 0


EMPTY = Sample(0.0, {})


HISTORY: Final = 120  # samples: four minutes at the default interval

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Outage:
    """A time without samples: its start and its reason."""

    since: float
    reason: str
    error: Exception


class RateHistory(Generic[K]):
    """The last rates of topics or groups, as long as they exist."""

    def __init__(self) -> None:
        self._rates: dict[K, deque[float | None]] = {}

    def add(self, rates: Iterable[tuple[K, float | None]]) -> None:
        """Add the newest rate of each key, and forget other keys."""
        known = self._rates
        self._rates = {}
        for key, rate in rates:
            self._rates[key] = known.get(key) or deque(maxlen=HISTORY)
            self._rates[key].append(rate)

    def of(self, key: K) -> Sequence[float | None]:
        """Return the rates of a key, oldest first."""
        return tuple(self._rates.get(key, ()))


class Model:
    """The known state of a backend, updated by samples."""

    def __init__(self) -> None:
        self.sample: Sample = EMPTY
        self.samples = 0
        self.outage: Outage | None = None
        self.stored: RateHistory[str] = RateHistory()
        self.passed: RateHistory[GroupKey] = RateHistory()

    def add(self, sample: Sample) -> None:
        """Add a sample. It ends an outage."""
        self.sample = sample
        self.samples += 1
        self.outage = None
        self.stored.add((name, topic.rate) for name, topic in sample.topics.items())
        self.passed.add((key, group.rate) for key, group in sample.groups.items())

    def fail(self, error: Exception, reason: str, now: float) -> None:
        """Note that a sample failed. Earlier data stays."""
        self.outage = Outage(self.outage.since if self.outage else now, reason, error)

    @property
    def failure(self) -> Exception | None:
        """Why the last sample failed, if it did."""
        return self.outage.error if self.outage else None

    @property
    def rate_in(self) -> float | None:
        """Messages stored per second in all topics with a known rate, or None if there are none."""
        return _sum(topic.rate for topic in self.sample.topics.values())

    @property
    def rate_out(self) -> float | None:
        """Messages per second that all groups pass."""
        return _sum(group.rate for group in self.sample.groups.values())


def _sum(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
