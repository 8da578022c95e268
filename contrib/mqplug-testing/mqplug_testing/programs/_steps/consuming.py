"""Steps that open and close consumers, receive, pause, and ask a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import attrs

from mqplug_testing.programs._steps.base import OfConsumer, Step, missing
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import AnyPlace, Symbol

MAX_MEMBERS = 3  # of a group; more than one only if the backend reports hand-overs


@attrs.frozen
class OpenConsumer(Step):
    """Open a consumer, without or with a group."""

    consumer: str
    client: str
    topics: tuple[str, ...]
    start: AnyPlace
    group: str | None = None
    lenient: bool = False
    partitions: tuple[int, ...] | None = None
    must_exist: bool = False

    exclusive: ClassVar[bool] = False

    def needs(self) -> Sequence[str]:
        return [*self.topics, *self.start.needs()]

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        if not super().applies(play) or self.consumer in play.world.consumers.open:
            return False
        if not all(topics.exists(topic) for topic in self.topics):
            return True
        start = self.start.model(play)
        try:
            places = play.world.consumers.places(self.topics, start, self.partitions, lenient=self.lenient)
        except AssertionError:  # a message of a deleted topic
            return False
        held = self.partitions is None or set(self.partitions) <= {log.log.partition for log in places}
        clear = all(len(each.points) == 1 for each in places.values())
        return held and (self.group is None or clear)

    def perform(self, play: Play) -> None:
        topics = self.topics[0] if len(self.topics) == 1 else f"[{', '.join(self.topics)}]"
        more = "" if self.partitions is None else f", partitions={list(self.partitions)}"
        if self.group is not None:
            play.name(self.group)
            more += f", group={self.group}{play.listeners(self.consumer)}"
        if self.exclusive:
            more += ", mode='exclusive'"
        if self.must_exist:
            more += ", must_exist=True"
        more += self.options(play)
        code = f"{self.client}.consumer({topics}, start={self.start.code()}{more}{missing(self.lenient)})"
        outcome = play.execute(Statement(code, (self.consumer,)))
        play.world.consumers.opened(
            self.consumer, self.topics, self.start.model(play), outcome,
            group=self.group, lenient=self.lenient, partitions=self.partitions, must_exist=self.must_exist,
            exclusive=self.exclusive,
        )  # fmt: skip
        play.settle()

    def options(self, play: Play) -> str:
        """Return more arguments."""
        return ""


@attrs.frozen
class OpenReader(OpenConsumer):
    """Open a consumer without a group, of one topic or of both."""

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None or not choose.room_for_consumer():
            return None
        partitions = (choose.partition(topic),) if choose.likely(0.2) else None
        both = choose.likely(0.25) and partitions is None and all(map(choose.world.topics.exists, choose.topics))
        topics = choose.topics if both else (topic,)
        lenient = choose.likely(0.3)
        return cls(choose.new("c"), choose.client(), topics, choose.start(topic), None, lenient, partitions)


@attrs.frozen
class OpenMember(OpenConsumer):
    """Open a member of a group that reads in order."""

    weight = 1.5
    capabilities: ClassVar[tuple[str, ...]] = ("durable_groups", "ordered")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None or not choose.room_for_consumer():
            return None
        group = choose.group()
        others = [each for each in choose.world.consumers.open.values() if each.group == group]
        if len(others) >= MAX_MEMBERS or (others and not choose.able.assignment_events):
            return None
        start = Symbol(choose.luck.choice(("EARLIEST", "LATEST"))) if choose.likely(0.7) else choose.start(topic)
        both = choose.likely(0.25) and all(map(choose.world.topics.exists, choose.topics))
        topics = choose.topics if both else (topic,)
        lenient, must_exist = choose.likely(0.3), choose.likely(0.1)
        return cls(choose.new("c"), choose.client(), topics, start, group, lenient, must_exist=must_exist)

    def applies(self, play: Play) -> bool:
        # Kafka stores no start for a group that has members: they would have to be members of the same topics.
        groups, topics = play.world.groups, play.world.topics
        others = self.group is not None and groups.members.get(self.group)
        there = [topics.current[each] for each in self.topics if topics.exists(each)]
        return super().applies(play) and (
            not others or all(groups.has_position(self.group or "", each) for each in there)
        )


@attrs.frozen
class OpenAutoMember(OpenMember):
    """Open a member that acks a message when it asks for the next one."""

    weight = 2

    def perform(self, play: Play) -> None:
        super().perform(play)
        if (model := play.world.consumers.open.get(self.consumer)) is not None:
            model.auto_ack = True

    def options(self, play: Play) -> str:
        return ", auto_ack=True"


@attrs.frozen
class OpenExclusive(OpenConsumer):
    """Open the only member of a group, or try to open a second one."""

    exclusive = True
    weight = 1.5
    capabilities = ("durable_groups", "exclusive")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        there = next((each for each in choose.world.consumers.open.values() if each.group == "g6"), None)
        topic = choose.topic() if there is None else there.topics[0]
        if topic is None or not choose.world.topics.exists(topic):
            return None
        start = Symbol(choose.luck.choice(("EARLIEST", "LATEST")))
        return cls(choose.new("c"), choose.client(), (topic,), start, "g6", lenient=True)


@attrs.frozen
class Close(OfConsumer):
    """Close a consumer."""

    weight = 0.8

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.consumer}.close()"))
        play.world.consumers.closed(self.consumer, outcome)
        del play.names[self.consumer]


@attrs.frozen
class Receive(OfConsumer):
    """Receive a message. It waits if the model knows that one must come."""

    weight = 4

    def perform(self, play: Play) -> None:
        play.settle()
        play.world.consumers.asked(self.consumer)
        waits = play.world.consumers.must_come(self.consumer)
        name = play.next_received()
        outcome = self.call(play, f"receive({play.patience if waits else 0})", name)
        play.world.consumers.received(self.consumer, outcome, waited=waits, now=play.now())
        if outcome.value is not None:
            play.note(self.consumer, [outcome.value], name)


@attrs.frozen
class ReceiveMany(OfConsumer):
    """Receive several messages."""

    most: int = 10

    weight = 3

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer()
        return None if consumer is None else cls(consumer.name, choose.luck.choice((1, 2, 5, 100)))

    def perform(self, play: Play) -> None:
        play.settle()
        play.world.consumers.asked(self.consumer)
        waits = play.world.consumers.must_come(self.consumer)
        name = play.next_received()
        outcome = self.call(play, f"receive_many({self.most}, {play.patience if waits else 0})", name)
        play.world.consumers.received_many(self.consumer, self.most, outcome, waited=waits, now=play.now())
        if outcome.value is not None:
            play.note(self.consumer, outcome.value, f"{name}[{{}}]")


@attrs.frozen
class Pause(OfConsumer):
    """Pause partitions; by default all."""

    partitions: tuple[int, ...] = ()

    capabilities = ("pause_resume",)
    method: ClassVar[str] = "pause"

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer()
        if consumer is None:
            return None
        held = sorted(each.partition for each in consumer.readings)
        return cls(consumer.name, (choose.luck.choice(held),) if held and choose.likely(0.7) else ())

    def applies(self, play: Play) -> bool:
        return super().applies(play) and len(play.world.consumers.open[self.consumer].topics) == 1

    def perform(self, play: Play) -> None:
        outcome = self.call(play, f"{self.method}({', '.join(map(str, self.partitions))})")
        play.world.consumers.paused(self.consumer, self.partitions, outcome, pause=self.method == "pause")


@attrs.frozen
class Resume(Pause):
    """Resume partitions; by default all."""

    method = "resume"


@attrs.frozen
class AskPosition(OfConsumer):
    """Ask a consumer for the position of the next message."""

    weight = 0.6

    def applies(self, play: Play) -> bool:
        return super().applies(play) and len(play.world.consumers.open[self.consumer].topics) == 1

    def perform(self, play: Play) -> None:
        play.world.consumers.positions(self.consumer, self.call(play, "position()"))


@attrs.frozen
class AskStored(AskPosition):
    """Ask a member what its group has stored."""

    members = True

    def perform(self, play: Play) -> None:
        play.world.consumers.stored(self.consumer, self.call(play, "committed()"))


@attrs.frozen
class AskLateAcks(OfConsumer):
    """Ask a member how many acks were late."""

    weight = 0.6
    members = True

    def perform(self, play: Play) -> None:
        play.world.consumers.late_acks(self.consumer, self.call(play, "late_acks"))
