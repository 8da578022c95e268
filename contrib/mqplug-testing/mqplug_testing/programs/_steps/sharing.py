"""Steps of members that share each log: in the modes ``shared`` and ``key_shared``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self

import attrs

from mqplug_testing.model import Outcome
from mqplug_testing.model.rules import value_of
from mqplug_testing.model.sharing import Sharer
from mqplug_testing.programs._steps.base import OfTopic, Step
from mqplug_testing.programs._steps.seeking import seek_arguments
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import AnyPlace, Place

MODES: Final = {"g4": "shared", "g5": "key_shared"}
MAX_SHARERS: Final = 3
LIMIT_S: Final = 0.2
DELAYS_S: Final = (0, 0, 0.05, 0.2)


@attrs.frozen
class OpenSharer(Step):
    """Open a member of a group that shares each log."""

    consumer: str
    client: str
    topics: tuple[str, ...]
    group: str
    start: AnyPlace
    limit: float | None

    weight = 2
    capabilities = ("shared", "durable_groups")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        modes = [group for group, mode in MODES.items() if getattr(choose.able, mode)]
        if topic is None or len(choose.world.sharing.open) >= MAX_SHARERS:
            return None
        both = choose.likely(0.25) and all(map(choose.world.topics.exists, choose.topics))
        topics = choose.topics if both else (topic,)
        limit = LIMIT_S if choose.likely(0.4) else None
        there = choose.one([each.group.name for each in choose.world.sharing.open.values()])
        group = there if there is not None and choose.likely(0.7) else choose.luck.choice(modes)
        return cls(choose.new("k"), choose.client(), topics, group, choose.start(topic), limit)

    def needs(self) -> Sequence[str]:
        return [*self.topics, *self.start.needs()]

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        if not super().applies(play) or not all(map(topics.exists, self.topics)) or self.consumer in play.names:
            return False
        try:
            return play.world.sharing.begins(self.topics, self.start.model(play)) is not None
        except AssertionError:  # a message of a deleted topic
            return False

    def perform(self, play: Play) -> None:
        play.name(self.group)
        topics = self.topics[0] if len(self.topics) == 1 else f"[{', '.join(self.topics)}]"
        more = "" if self.limit is None else f", max_processing={self.limit}"
        code = (
            f"{self.client}.consumer({topics}, group={self.group}, mode={MODES[self.group]!r}, "
            f"start={self.start.code()}, missing='next'{more})"
        )
        begins = play.world.sharing.begins(self.topics, self.start.model(play)) or {}
        since = play.now()
        outcome = play.execute(Statement(code, (self.consumer,)))
        play.world.sharing.opened(
            self.consumer, self.topics, self.group, MODES[self.group], begins, self.limit, outcome, since=since
        )


@attrs.frozen
class OfSharer(Step):
    """A call of an open member."""

    consumer: str

    capabilities: ClassVar[tuple[str, ...]] = ("shared", "durable_groups")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.sharer()
        return None if consumer is None else cls(consumer)

    def needs(self) -> Sequence[str]:
        return [self.consumer]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and self.consumer in play.world.sharing.open

    def call(self, play: Play, code: str, *names: str) -> Outcome:
        """Evaluate the code after the consumer's name and a dot."""
        return play.execute(Statement(f"{self.consumer}.{code}", names))


@attrs.frozen
class CloseSharer(OfSharer):
    """Close a member."""

    weight = 0.7

    def perform(self, play: Play) -> None:
        play.world.sharing.closed(self.consumer, self.call(play, "close()"))
        del play.names[self.consumer]


@attrs.frozen
class ReceiveShared(OfSharer):
    """Receive some messages. It waits if the model knows that one must come."""

    most: int | None = None

    weight = 6

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.sharer()
        return None if consumer is None else cls(consumer, choose.luck.choice((None, 1, 1, 2, 100)))

    def perform(self, play: Play) -> None:
        waits = play.world.sharing.must_come(self.consumer, play.now())
        name, wait = play.next_received(), play.patience if waits else 0
        if self.most is None:
            outcome = self.call(play, f"receive({wait})", name)
            messages = [] if outcome.value is None else [outcome.value]
        else:
            outcome = self.call(play, f"receive_many({self.most}, {wait})", name)
            messages = list(outcome.value or ())
        found = Outcome(messages, outcome.error)
        play.world.sharing.received(self.consumer, found, waited=waits, now=play.now())
        play.note(self.consumer, messages, name if self.most is None else f"{name}[{{}}]")


@attrs.frozen
class AckShared(OfSharer):
    """Ack a message that the member was given."""

    message: str

    weight = 5
    arguments: ClassVar[str] = ""

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.sharer()
        if consumer is None:
            return None
        message = _in_hand(choose, choose.world.sharing.open[consumer])
        return None if message is None else cls(consumer, message)

    def needs(self) -> Sequence[str]:
        return [self.consumer, self.message]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and (self.consumer, play.names[self.message]) in play.hands

    def perform(self, play: Play) -> None:
        wanted = play.names[self.message]
        outcome = self.call(play, f"ack({play.hands[self.consumer, wanted]})")
        play.world.sharing.acked(self.consumer, wanted, outcome, play.now())


def _in_hand(choose: Choices, sharer: Sharer) -> str | None:
    """Return a message that the member was given: most often one that it has, at times one that another has got."""
    items = {
        shared.log.stored[row].id: item for shared in sharer.group.logs.values() for row, item in shared.items.items()
    }
    given = [message for name, message in choose.play.hands if name == sharer.name]
    held = [each for each, item in items.items() if item.last == sharer.name and not (item.acked_by or item.again)]
    lost = [each for each in given if each in items and items[each].last != sharer.name]
    if lost and choose.likely(0.4):
        held = lost
    elif not held or choose.likely(0.15):
        held = given
    names = choose.world.topics.names
    return choose.one(sorted((names[each] for each in held if each in names), key=lambda name: int(name[1:])))


@attrs.frozen
class NackShared(AckShared):
    """Nack a message that the member was given."""

    delay: float = 0

    weight = 3
    capabilities = ("shared", "durable_groups", "nack")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        drawn = super().draw(choose)
        return None if drawn is None else attrs.evolve(drawn, delay=choose.luck.choice(DELAYS_S))

    def perform(self, play: Play) -> None:
        wanted, due = play.names[self.message], play.now() + self.delay
        outcome = self.call(play, f"nack({play.hands[self.consumer, wanted]}, {self.delay})")
        play.world.sharing.nacked(self.consumer, wanted, due, outcome)


@attrs.frozen
class CommitShared(OfSharer):
    """Commit."""

    def perform(self, play: Play) -> None:
        play.world.sharing.committed(self.consumer, self.call(play, "commit()"))


@attrs.frozen
class AskLateShared(OfSharer):
    """Ask a member how many acks were late."""

    weight = 0.5

    def perform(self, play: Play) -> None:
        play.world.sharing.late_acks(self.consumer, self.call(play, "late_acks"))


@attrs.frozen
class SeekShared(OfSharer):
    """Seek, which moves the group."""

    to: AnyPlace

    weight = 1

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.sharer()
        if consumer is None:
            return None
        topic = choose.world.sharing.open[consumer].topics[0]
        return cls(consumer, choose.start(topic))

    def needs(self) -> Sequence[str]:
        return [self.consumer, *self.to.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play) or isinstance(self.to, Place):
            return False
        alone = len(play.world.sharing.open[self.consumer].group.members) == 1  # others may have fetched messages
        return alone and self._begins(play) is not None

    def _begins(self, play: Play) -> object:
        topics = play.world.sharing.open[self.consumer].topics
        try:
            return play.world.sharing.sought_begins(topics, self.to.model(play))
        except AssertionError:  # a message of a deleted topic
            return None

    def perform(self, play: Play) -> None:
        topics = play.world.sharing.open[self.consumer].topics
        begins = play.world.sharing.sought_begins(topics, self.to.model(play)) or {}
        outcome = self.call(play, f"seek({seek_arguments(self.to, None)}, missing='next')")
        play.world.sharing.sought(self.consumer, begins, outcome)


@attrs.frozen
class Wait(Step):
    """Let time pass, so that delays and the time to process end."""

    seconds: float

    weight = 0.7

    @classmethod
    def draw(cls, choose: Choices) -> Self:
        return cls(choose.luck.choice((0.05, 1.2 * LIMIT_S)))

    def perform(self, play: Play) -> None:
        value_of(play.execute(Statement(f"time.sleep({self.seconds})")), "timeout")


@attrs.frozen
class OfSharedGroup(OfTopic):
    """A question about a group in a topic."""

    group: str

    capabilities = ("shared", "durable_groups")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        groups = choose.world.sharing.groups
        topic, group = choose.topic(), choose.one(list(groups))
        return None if topic is None or group is None else cls(choose.client(), topic, group)

    def applies(self, play: Play) -> bool:
        group = play.world.sharing.groups.get(self.group)
        if group is None or not super().applies(play) or not play.world.topics.exists(self.topic):
            return False
        return all(log in group.logs for log in play.world.topics.current[self.topic].logs)


@attrs.frozen
class SharedPositions(OfSharedGroup):
    """Ask for the positions of a group."""

    def perform(self, play: Play) -> None:
        outcome = self.call(play, "positions", f", group={self.group}")
        play.world.sharing.positions(self.group, self.topic, outcome)


@attrs.frozen
class SharedLag(OfSharedGroup):
    """Ask for the lag of a group."""

    weight = 0.5

    def perform(self, play: Play) -> None:
        play.world.sharing.lag(self.group, self.topic, self.call(play, "lag", f", group={self.group}"))


@attrs.frozen
class DescribeSharers(OfSharedGroup):
    """Describe a group."""

    weight = 0.4

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.describe_group({self.group})"))
        play.world.sharing.described(self.group, outcome)
