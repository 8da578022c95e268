"""Steps that ask what is stored, and what a start means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs

from mqplug_testing.programs._steps.base import OfTopic, Step, missing
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import AnyPlace, Place


@attrs.frozen
class Watermarks(OfTopic):
    """Ask for the watermarks of a topic."""

    def perform(self, play: Play) -> None:
        play.world.topics.watermarks(self.topic, self.call(play, "watermarks"))


@attrs.frozen
class Bounds(OfTopic):
    """Ask for the first and the last id of a topic."""

    def perform(self, play: Play) -> None:
        play.world.topics.bounds(self.topic, self.call(play, "bounds"))


@attrs.frozen
class WatermarksOfAll(Step):
    """Ask for the watermarks of several topics at once."""

    client: str
    topics: tuple[str, ...]

    weight = 0.2

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        return cls(choose.client(), tuple(choose.world.topics.current))

    def needs(self) -> Sequence[str]:
        return self.topics

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.watermarks([{', '.join(self.topics)}])"))
        play.world.topics.watermarks_of_all(self.topics, outcome)


@attrs.frozen
class Resolve(Step):
    """Resolve a start, and name the result."""

    name: str
    client: str
    topic: str
    start: AnyPlace
    partitions: tuple[int, ...] | None = None
    lenient: bool = False

    weight = 2.5

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None:
            return None
        partitions = (choose.partition(topic),) if choose.likely(0.2) else None
        return cls(choose.new("x"), choose.client(), topic, choose.start(topic), partitions, choose.likely(0.4))

    def needs(self) -> Sequence[str]:
        return [self.topic, *self.start.needs()]

    def perform(self, play: Play) -> None:
        more = "" if self.partitions is None else f", partitions={list(self.partitions)}"
        code = f"{self.client}.resolve({self.topic}, {self.start.code()}{more}{missing(self.lenient)})"
        outcome = play.execute(Statement(code, (self.name,)))
        play.world.topics.resolved(self.topic, self.start.model(play), self.partitions, self.lenient, outcome)


COUNTS = (0, 1, 2, 3, 10, 2**31, 2**53, 2**63)


@attrs.frozen
class Advance(Step):
    """Move a position, name the result, and count the messages between."""

    name: str
    client: str
    place: Place
    count: int

    capabilities = ("advance",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        place = choose.place(None)
        return None if place is None else cls(choose.new("x"), choose.client(), place, choose.luck.choice(COUNTS))

    def needs(self) -> Sequence[str]:
        return self.place.needs()

    def perform(self, play: Play) -> None:
        number, place = self.place.partition, self.place.code()
        start = self.place.model(play)
        moved = f"{{{number}: {self.client}.advance({place}, {self.count})}}"
        outcome = play.execute(Statement(moved, (self.name,)))
        if outcome.error is None:
            distance = play.execute(Statement(f"{self.client}.distance({place}, {self.name}[{number}])"))
            play.world.topics.advanced(start, self.count, outcome.value[number], distance)
        else:
            play.world.topics.not_advanced(start, outcome)


@attrs.frozen
class Distance(Step):
    """Count the messages between two positions."""

    client: str
    one: Place
    other: Place

    weight = 0.5
    capabilities = ("advance",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        one, other = choose.place(None), choose.place(None)
        return None if one is None or other is None else cls(choose.client(), one, other)

    def needs(self) -> Sequence[str]:
        return [*self.one.needs(), *self.other.needs()]

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.distance({self.one.code()}, {self.other.code()})"))
        play.world.topics.distance(self.one.model(play), self.other.model(play), outcome)
