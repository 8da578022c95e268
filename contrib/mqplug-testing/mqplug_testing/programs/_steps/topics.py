"""Steps that create, change and list topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs

from mqplug import Position
from mqplug_testing.model.rules import check
from mqplug_testing.programs._steps.base import OfTopic, Step
from mqplug_testing.programs.choices import MAX_PARTITIONS, Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import Place


@attrs.frozen
class CreateTopic(Step):
    """Create a topic."""

    client: str
    topic: str
    partitions: int = 1

    weight = 0.4

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        topics = choose.world.topics
        deleted = [each for each in topics.current if not topics.exists(each)]  # mostly one of these, if there are any
        return cls(choose.client(), choose.luck.choice([*choose.topics, *deleted * 4]), choose.partitions())

    def perform(self, play: Play) -> None:
        play.name(self.topic)
        before = play.world.topics.current.get(self.topic)
        created = play.execute(Statement(f"{self.client}.create_topic({self.topic}, partitions={self.partitions})"))
        described = play.execute(Statement(f"{self.client}.partitions({self.topic})"))
        play.world.topics.created(self.topic, self.partitions, created, described)
        name = play.world.topics.current[self.topic].name
        check(name == play.names[self.topic], "describe", play.names[self.topic], name)
        if before is not None and before is not play.world.topics.current[self.topic]:
            play.forget_old(before)


@attrs.frozen
class DeleteTopic(OfTopic):
    """Delete a topic that no consumer reads, or one of which ids tell the incarnation."""

    weight = 0.25
    capabilities = ("delete_topic",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None:
            return None
        read = any(topic in each.topics for each in choose.world.consumers.open.values())
        known = choose.current(topic).logs[0].log.incarnation
        return None if read and not known else cls(choose.client(), topic)

    def applies(self, play: Play) -> bool:
        shared = any(self.topic in each.topics for each in play.world.sharing.open.values())
        return super().applies(play) and not shared

    def perform(self, play: Play) -> None:
        play.world.topics.deleted(self.topic, self.call(play, "delete_topic"))


@attrs.frozen
class AddPartitions(OfTopic):
    """Add a partition, or ask for as many as there are."""

    total: int

    weight = 0.3
    capabilities = ("add_partitions", "partitions")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None:
            return None
        there = len(choose.current(topic).logs)
        total = there if choose.likely(0.1) else there + 1
        return cls(choose.client(), topic, total) if total <= MAX_PARTITIONS + 1 else None

    def perform(self, play: Play) -> None:
        added = self.call(play, "add_partitions", f", {self.total}")
        described = self.call(play, "partitions")
        if logs := play.world.topics.grown(self.topic, self.total, added, described):
            play.world.groups.grown(play.world.topics.current[self.topic], logs)


@attrs.frozen
class Trim(OfTopic):
    """Trim partitions of a topic before these places."""

    before: tuple[Place, ...]

    weight = 1.5
    capabilities = ("trim",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        place = choose.place(topic)
        if topic is None or place is None:
            return None
        others = [each for each in choose.play.names[place.name] if each != place.partition and choose.likely(0.3)]
        return cls(choose.client(), topic, (place, *(Place(place.name, each) for each in others)))

    def needs(self) -> Sequence[str]:
        return [self.topic, *(name for each in self.before for name in each.needs())]

    def perform(self, play: Play) -> None:
        pairs = ", ".join(f"{each.partition}: {each.code()}" for each in self.before)
        outcome = self.call(play, "trim", f", {{{pairs}}}")
        marks = self.call(play, "watermarks")
        before = {each.partition: each.model(play) for each in self.before}
        positions = {number: place for number, place in before.items() if isinstance(place, Position)}
        play.world.topics.trimmed(self.topic, positions, outcome, marks)


@attrs.frozen
class ListTopics(Step):
    """List the topics of this program."""

    client: str

    weight = 0.3
    capabilities = ("list_topics",)

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        return cls(choose.client())

    def perform(self, play: Play) -> None:
        outcome = play.execute(
            Statement(f"[each for each in {self.client}.topics() if each.startswith({play.prefix!r})]")
        )
        play.world.topics.listed(outcome)
