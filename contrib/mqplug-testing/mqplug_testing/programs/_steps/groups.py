"""Steps that ask about groups, and change them from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs

from mqplug import ConsumerBusy
from mqplug_testing.model import Outcome
from mqplug_testing.model.topics import named_log
from mqplug_testing.programs._steps.base import OfTopic, Step, missing
from mqplug_testing.programs.choices import GROUPS, Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import AnyPlace


@attrs.frozen
class OfGroup(OfTopic):
    """A call about a group in a topic."""

    group: str

    capabilities = ("durable_groups",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.client(), topic, choose.group())

    def ask(self, play: Play, method: str) -> Outcome:
        """Ask for something about the group."""
        play.name(self.group)
        play.settle()
        return self.call(play, method, f", group={self.group}")


@attrs.frozen
class Positions(OfGroup):
    """Ask for the positions of a group."""

    def perform(self, play: Play) -> None:
        play.world.groups.positions(self.group, self.topic, self.ask(play, "positions"))


@attrs.frozen
class Lag(OfGroup):
    """Ask for the lag of a group."""

    def perform(self, play: Play) -> None:
        play.world.groups.lag(self.group, self.topic, self.ask(play, "lag"))


@attrs.frozen
class ListGroups(OfTopic):
    """List the groups of a topic."""

    weight = 0.3
    capabilities = ("durable_groups",)

    def perform(self, play: Play) -> None:
        play.settle()
        code = f"[(each.name, each.members) for each in {self.client}.groups({self.topic})]"
        outcome = play.execute(Statement(code))
        shorts: dict[str, str] = {play.names[name]: name for name in play.world.groups.stored}
        if outcome.error is None:
            listed: list[tuple[str, int | None]] = outcome.value
            sharing = {play.names[name] for name in play.world.sharing.groups}
            others = [(shorts.get(name, name), members) for name, members in listed if name not in sharing]
            outcome = Outcome(sorted(others))
        play.world.descriptions.listed(self.topic, outcome)


@attrs.frozen
class DescribeGroup(Step):
    """Describe a group."""

    client: str
    group: str

    weight = 1.5
    capabilities = ("durable_groups",)

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        return cls(choose.client(), choose.group())

    def perform(self, play: Play) -> None:
        play.name(self.group)
        play.settle()
        outcome = play.execute(Statement(f"{self.client}.describe_group({self.group})"))
        play.settle()
        play.world.descriptions.described(self.group, outcome)


def all_joined(play: Play, group: str) -> bool:
    """Return whether each open member of a group holds a partition: a backend may admit a new one a little later."""
    members = play.world.groups.members.get(group, ())
    return all(play.world.consumers.open[name].readings for name in members)


@attrs.frozen
class ResetGroup(OfGroup):
    """Reset a group."""

    to: AnyPlace
    lenient: bool = False

    weight = 0.8

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None:
            return None
        group, lenient = choose.group(), choose.likely(0.4)
        return cls(choose.client(), topic, group, choose.start(topic), lenient)

    def needs(self) -> Sequence[str]:
        return [self.topic, *self.to.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play) or not all_joined(play, self.group):
            return False
        start, topic = self.to.model(play), play.world.topics.current[self.topic]
        logs = [log for log in topic.logs if named_log(start) in {None, log.log}]
        return topic.deleted or all(len(log.places(start, lenient=self.lenient).points) < 2 for log in logs)

    def perform(self, play: Play) -> None:
        play.name(self.group)
        code = f"{self.client}.reset_group({self.group}, {self.topic}, {self.to.code()}{missing(self.lenient)})"
        outcome = play.execute(Statement(code))
        members = [play.world.consumers.open[name] for name in play.world.groups.members.get(self.group, ())]
        read = any(self.topic in each.topics for each in members)
        play.world.groups.reset(self.group, self.topic, self.to.model(play), self.lenient, outcome, read=read)
        if isinstance(outcome.error, ConsumerBusy):
            described = play.execute(Statement(f"{self.client}.describe_group({self.group})"))
            play.world.descriptions.named(outcome, described)


@attrs.frozen
class CopyGroup(OfGroup):
    """Place another group where a group is, with its acks."""

    other: str

    weight = 2

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        group = choose.group()
        other = choose.luck.choice([each for each in GROUPS if each != group])
        return None if topic is None else cls(choose.client(), topic, group, other)

    def applies(self, play: Play) -> bool:
        groups, topics = play.world.groups, play.world.topics
        if not topics.exists(self.topic) or groups.members.get(self.other):
            return False
        return all(groups.latest(self.group, log) is not None for log in topics.current[self.topic].logs)

    def perform(self, play: Play) -> None:
        play.name(self.other)
        found = self.ask(play, "positions")
        play.world.groups.positions(self.group, self.topic, found)
        places = f"{self.client}.positions({self.topic}, group={self.group})"
        outcome = play.execute(
            Statement(f"{self.client}.reset_group({self.other}, {self.topic}, {places}, missing='next')")
        )
        play.world.groups.copied(self.group, self.other, self.topic, outcome)
        copied = self.call(play, "positions", f", group={self.other}")
        play.world.groups.positions(self.other, self.topic, copied)


@attrs.frozen
class DeleteGroup(Step):
    """Delete a group."""

    client: str
    group: str

    weight = 0.3
    capabilities = ("durable_groups",)

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        return cls(choose.client(), choose.group())

    def applies(self, play: Play) -> bool:
        return super().applies(play) and all_joined(play, self.group)

    def perform(self, play: Play) -> None:
        play.name(self.group)
        outcome = play.execute(Statement(f"{self.client}.delete_group({self.group})"))
        play.world.groups.deleted(self.group, outcome)
        if isinstance(outcome.error, ConsumerBusy):
            described = play.execute(Statement(f"{self.client}.describe_group({self.group})"))
            play.world.descriptions.named(outcome, described)
