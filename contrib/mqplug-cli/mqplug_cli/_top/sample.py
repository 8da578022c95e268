"""What is seen of a backend at one moment: the extent of each partition, and where each group stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

import mqplug

GroupKey: TypeAlias = tuple[str, str]
"""The names of a group and of a topic."""


@attrs.frozen
class TopicSample:
    """A topic's partitions at a moment, and the messages that were stored since the sample before, if that is known.

    The numbers are per second, by partition.
    """

    at: float
    marks: Mapping[int, mqplug.Watermarks]
    rates: Mapping[int, float] | None = None

    @property
    def messages(self) -> int:
        """How many messages are retained, as far as the backend counts them."""
        return sum(marks.count for marks in self.marks.values())

    @property
    def exact(self) -> bool:
        """Whether the numbers of messages are no estimates."""
        return all(marks.exact for marks in self.marks.values())

    @property
    def rate(self) -> float | None:
        """Messages stored per second, in all partitions."""
        return None if self.rates is None else sum(self.rates.values())


@attrs.frozen
class GroupSample:
    """A group's lag on a topic at a moment, by partition, and the messages per second that it passed, if known.

    ``positions`` are missing where the backend does not count between positions.
    """

    at: float
    lag: Mapping[int, int]
    positions: Mapping[int, mqplug.Position] | None = None
    rate: float | None = None

    @property
    def behind(self) -> int:
        """How many messages the group has yet to read, in all partitions."""
        return sum(self.lag.values())


@attrs.frozen
class Sample:
    """All topics and groups at a moment, in seconds of a monotonic clock.

    ``members`` has the number of each group's members, None where the backend does not report it. A group is in
    ``groups`` once for each topic where it has a position, as far as it was asked for; ``unasked`` groups never were.
    """

    at: float
    topics: Mapping[str, TopicSample]
    members: Mapping[str, int | None] = attrs.field(factory=dict)
    groups: Mapping[GroupKey, GroupSample] = attrs.field(factory=dict)
    unasked: int = 0


EMPTY = Sample(0.0, {})
