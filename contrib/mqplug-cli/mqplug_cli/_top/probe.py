"""Takes samples of a backend through the public API, in a thread.

The time for querying groups in one sample is bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

import mqplug
from mqplug_cli._top.model import EMPTY, GroupKey, GroupSample, Sample, TopicSample
from mqplug_cli._top.rates import Distance, lag_of, passed_rate, stored_rates

_TRIES: Final = 3  # topics may be deleted between two calls


class Probe:
    """Takes samples of one client's backend.

    All topics are queried in one call, groups one by one: first those in ``wanted``, then the others in turn, until
    ``group_seconds`` are over. Groups that are not queried keep their last sample.
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
        self._asked: dict[str, float] = {}  # when each group was queried

    def take(self) -> Sample:
        """Return a new sample."""
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
        """Yield the groups: wanted ones first, and those queried longest ago before others."""
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
            partition: lag_of(positions.get(partition), marks, self._distance)
            for partition, marks in there.marks.items()
        }
        return GroupSample(self._clock(), lag, positions)


Tell: TypeAlias = Callable[[Sample | Exception], None]


class Sampler:
    """Takes a sample every few seconds. A slow one is followed by an equally long pause.

    So the backend is queried at most half of the time. Failures are reported and do not end it.
    """

    def __init__(self, take: Callable[[], Sample], tell: Tell, every: float) -> None:
        self._take = take
        self._tell = tell
        self._every = every
        self._wanted = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="mqplug-top", daemon=True)

    def start(self) -> None:
        """Start, with a sample at once."""
        self._thread.start()

    def hurry(self) -> None:
        """Take the next sample now."""
        self._wanted.set()

    def end(self, timeout: float) -> None:
        """Stop. Wait this long for a sample that is being taken."""
        self._ended = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ended:
            began = time.monotonic()
            self._step()
            spent = time.monotonic() - began
            self._wanted.wait(max(self._every - spent, spent))
            self._wanted.clear()

    def _step(self) -> None:
        outcome: Sample | Exception
        try:
            outcome = self._take()
        except Exception as error:  # noqa: BLE001 - reported to the screen, with its defects
            outcome = error
        if not self._ended:
            self._tell(outcome)
