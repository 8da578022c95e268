"""Asks a backend for samples, through the public API. What it may ask of groups in one sample is bounded by time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import attrs

import mqplug
from mqplug_cli._top.rates import Distance, passed_rate, stored_rates
from mqplug_cli._top.sample import EMPTY, GroupKey, GroupSample, Sample, TopicSample

_TRIES: Final = 3  # topics may be deleted between two questions


class Probe:
    """Takes samples of one client's backend.

    All topics are asked for in one call. Groups are asked for one by one: first those in ``wanted``, then the others in
    turn, until ``group_seconds`` are over; what is not asked for keeps its last sample.
    """

    def __init__(
        self,
        client: mqplug.Client,
        *,
        timeout: float,
        group_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wanted: Collection[str] = ()
        self._client = client
        self._timeout = timeout
        self._group_seconds = group_seconds
        self._clock = clock
        self._distance: Distance | None = client.distance if client.capabilities.advance else None
        self._last = EMPTY
        self._asked: dict[str, float] = {}  # when each group was asked for

    def take(self) -> Sample:
        """Return what there is now."""
        topics = self._topics()
        members: Mapping[str, int | None] = {}
        groups: Mapping[GroupKey, GroupSample] = {}
        if self._client.capabilities.groups:
            members = {each.name: each.members for each in self._client.groups(timeout=self._timeout)}
            groups = self._groups(members, topics)
        self._last = Sample(self._clock(), topics, members, groups, len(members.keys() - self._asked.keys()))
        return self._last

    def _topics(self) -> dict[str, TopicSample]:
        found = self._marks()
        at = self._clock()
        topics = {}
        for name, marks in found.items():
            now = TopicSample(at, marks)
            rates = stored_rates(self._last.topics.get(name), now, self._distance)
            topics[name] = attrs.evolve(now, rates=rates)
        return topics

    def _marks(self) -> Mapping[str, Mapping[int, mqplug.Watermarks]]:
        for attempt in range(_TRIES):
            names = self._client.topics(timeout=self._timeout)
            try:
                return self._client.watermarks(names, timeout=self._timeout)
            except mqplug.TopicNotFound:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError

    def _groups(
        self, members: Mapping[str, int | None], topics: Mapping[str, TopicSample]
    ) -> dict[GroupKey, GroupSample]:
        found = {key: each for key, each in self._last.groups.items() if key[0] in members and key[1] in topics}
        until = self._clock() + self._group_seconds
        for name in self._in_turn(members):
            self._asked[name] = self._clock()
            for key in [key for key in found if key[0] == name]:
                del found[key]
            found |= self._group(name, topics)
            if self._clock() >= until:
                break
        self._asked = {name: at for name, at in self._asked.items() if name in members}
        return found

    def _in_turn(self, names: Collection[str]) -> Iterator[str]:
        """Yield the groups: those that are wanted first, then those that were asked for longest ago."""
        wanted = set(self.wanted)
        yield from sorted(names, key=lambda name: (name not in wanted, self._asked.get(name, 0.0), name))

    def _group(self, name: str, topics: Mapping[str, TopicSample]) -> dict[GroupKey, GroupSample]:
        try:
            described = self._client.describe_group(name, timeout=self._timeout)
        except mqplug.GroupNotFound:
            return {}
        found = {}
        for topic in described.topics:
            if topic in topics and (sample := self._group_on(name, topic, topics[topic])) is not None:
                found[name, topic] = sample
        return found

    def _group_on(self, name: str, topic: str, there: TopicSample) -> GroupSample | None:
        """Return the sample of a group on a topic, or None if it has only members there."""
        try:
            now = self._place(name, topic, there)
        except (mqplug.GroupNotFound, mqplug.TopicNotFound):
            return None
        before = self._last.groups.get((name, topic))
        return attrs.evolve(now, rate=passed_rate(before, now, there.rate, self._distance))

    def _place(self, name: str, topic: str, there: TopicSample) -> GroupSample:
        if self._distance is None:
            lag = self._client.lag(topic, group=name, timeout=self._timeout)
            return GroupSample(self._clock(), lag)
        found = self._client.positions(topic, group=name, timeout=self._timeout)
        positions = {partition: each.position for partition, each in found.items()}
        lag = {
            partition: _lag(positions.get(partition), marks, self._distance) for partition, marks in there.marks.items()
        }
        return GroupSample(self._clock(), lag, positions)


def _lag(position: mqplug.Position | None, marks: mqplug.Watermarks, distance: Distance) -> int:
    """Return how many messages lie before the end of a partition, from the position or from what is retained on."""
    if position is None:
        return marks.count
    if position.log is not marks.high.log:
        return 0  # the topic was created anew since
    return distance(max(position, marks.low), marks.high)
