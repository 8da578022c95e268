"""Chooses the next step of a program, by chance and by what the model knows.

A step is more likely the less often its operation followed the one before, so that all pairs of operations come soon.
Some steps are likely to be followed by certain others with the same consumer, so that acks and attempts come in number.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Final

from mqplug.spi import Capabilities
from mqplug_testing.model import Content
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs._steps import FAMILIES, USUAL
from mqplug_testing.programs._steps.acking import Ack, AckThrough, Nack
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs._steps.consuming import Close, OpenMember, OpenReader, Pause, Receive, ReceiveMany
from mqplug_testing.programs._steps.groups import CopyGroup, Lag, Positions, ResetGroup
from mqplug_testing.programs._steps.producing import OpenProducer, Send, SendMany
from mqplug_testing.programs._steps.queries import Bounds, Resolve, Watermarks
from mqplug_testing.programs._steps.seeking import Seek
from mqplug_testing.programs._steps.sharing import (
    AckShared,
    AskLateShared,
    CloseSharer,
    CommitShared,
    NackShared,
    OpenSharer,
    ReceiveShared,
    SeekShared,
    SharedPositions,
    Wait,
)
from mqplug_testing.programs._steps.topics import AddPartitions, CreateTopic, Trim
from mqplug_testing.programs._steps.transactions import Transact
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play
from mqplug_testing.programs.starts import Symbol

FAMILY_CHANCES: Final = (0.15, 0.4)  # that a program has the steps of a family
FULL_CHANCE: Final = 0.7  # that a program begins with messages, and with consumers that read them
BEGINNING: Final[tuple[type[Step], ...]] = (OpenProducer, SendMany, OpenMember, OpenSharer, SendMany)
FOLLOW_CHANCE: Final = 0.6  # that a step is one of those that follow the one before

FOLLOWERS: Final[dict[type[Step], tuple[type[Step], ...]]] = {
    Receive: (Ack, AckThrough, Nack),
    ReceiveMany: (Ack, AckThrough, Nack),
    Ack: (Ack, Close, CopyGroup),
    Close: (OpenMember, ResetGroup, CopyGroup),
    Nack: (Receive,),
    Seek: (Receive,),
    Pause: (Receive,),
    Resolve: (Trim,),
    Trim: (Send, SendMany),
    AddPartitions: (SendMany, OpenMember),
    ReceiveShared: (AckShared, NackShared, Wait),
    AckShared: (AckShared, SeekShared),
    NackShared: (ReceiveShared,),
    Wait: (ReceiveShared,),
    Transact: (Transact,),
}
"""Steps that often follow others, most often with the same consumer: so acks have gaps, and attempts are many."""

Pairs = Counter[tuple[str, str]]


def operations(able: Capabilities, hooks: Container[str]) -> list[type[Step]]:
    """Return the steps that a backend with these capabilities, and a run with these hooks, allow."""
    kinds = dict.fromkeys([*USUAL, *(each for steps in FAMILIES.values() for each in steps)])
    able_to = [kind for kind in kinds if all(getattr(able, each) for each in kind.capabilities)]
    return [kind for kind in able_to if all(each in hooks for each in kind.hooks)]


class Generator:
    """Draws the steps of one program."""

    def __init__(self, play: Play, luck: random.Random, pairs: Pairs) -> None:
        self._play = play
        self._luck = luck
        self._pairs = pairs
        self._choose = Choices(play, luck)
        self._last: type[Step] | None = None
        chance = luck.choice(FAMILY_CHANCES)
        some = {*USUAL, *(each for steps in FAMILIES.values() if self._choose.likely(chance) for each in steps)}
        self._kinds = [kind for kind in operations(play.able, play.names) if kind in some]

    def steps(self, count: int) -> Iterator[Step]:
        """Yield a program: its beginning, random steps, and an end that shows what is left."""
        for topic in self._choose.topics[: self._luck.choice((1, 1, 2))]:
            yield CreateTopic(self._choose.client(), topic, self._choose.partitions())
        for kind in BEGINNING if self._choose.likely(FULL_CHANCE) else ():
            if kind in self._kinds and (step := self._drawn([kind])) is not None:
                yield self._noted(step)
        for _ in range(count):
            yield self._noted(self._draw())
        yield from self._ending()

    def _noted(self, step: Step) -> Step:
        self._pairs[self._before, step.kind] += 1
        self._last = type(step)
        if (consumer := getattr(step, "consumer", None)) is not None:
            self._choose.focus(consumer)
        return step

    @property
    def _before(self) -> str:
        return "begin" if self._last is None else self._last.__name__

    def _draw(self) -> Step:
        followers = [kind for kind in FOLLOWERS.get(self._last or Step, ()) if kind in self._kinds]
        if followers and self._choose.likely(FOLLOW_CHANCE) and (step := self._drawn(followers)) is not None:
            return step
        while (step := self._drawn(self._kinds)) is None:
            pass
        return step

    def _drawn(self, kinds: Sequence[type[Step]]) -> Step | None:
        weights = [kind.weight / (1 + self._pairs[self._before, kind.__name__]) for kind in kinds]
        (kind,) = self._luck.choices(kinds, weights)
        step = kind.draw(self._choose)
        return step if step is not None and step.applies(self._play) else None

    def _ending(self) -> Iterator[Step]:
        """Send to each partition, so that what did not come before has to come now, and receive all that is left."""
        play, topics, new = self._play, self._play.world.topics, self._choose.new
        for topic in [each for each in self._choose.topics if topics.exists(each)]:
            producer = new("p")
            yield OpenProducer(producer, "mq", topic)
            for number in range(len(topics.current[topic].logs)):
                yield Send(producer, topic, (Sent(new("m"), Content(b"last"), number),))
        for consumer in list(play.world.consumers.open):
            left = sum(log.end for topic in topics.current.values() for log in topic.logs) * 2 + 5
            while left and play.world.consumers.must_come(consumer):
                yield ReceiveMany(consumer, 100)
                left -= 1
            yield Receive(consumer)
            yield Close(consumer)
        yield from self._ending_of_sharers()
        for topic in [each for each in self._choose.topics if topics.exists(each)]:
            for group in play.world.groups.stored:
                yield Positions("mq", topic, group)
                yield Lag("mq", topic, group)
            yield Watermarks("mq", topic)
            yield Bounds("mq", topic)
            yield from self._read_all(topic)

    def _ending_of_sharers(self) -> Iterator[Step]:
        """Close the members of each group but the last, which must get all that is left; then open another."""
        sharing, topics = self._play.world.sharing, self._play.world.topics
        for group in sharing.groups.values():
            while len(group.members) > 1:
                name = next(iter(group.members))
                yield CommitShared(name)
                yield AskLateShared(name)
                yield CloseSharer(name)
            for member in list(group.members.values()):
                yield from self._rest_of(member.name)
                if all(map(topics.exists, member.topics)):
                    name = self._choose.new("k")
                    yield OpenSharer(name, "mq", member.topics, group.name, Symbol("EARLIEST"), None)
                    yield from self._rest_of(name)

    def _rest_of(self, sharer: str) -> Iterator[Step]:
        """Receive all that is left for the only member of a group."""
        sharing = self._play.world.sharing
        yield CommitShared(sharer)
        while sharer in sharing.open and sharing.must_come(sharer, self._play.now()):
            yield ReceiveShared(sharer, 100)
        yield ReceiveShared(sharer, 100)
        yield CommitShared(sharer)
        yield AskLateShared(sharer)
        if sharer in sharing.open:
            for topic in sharing.open[sharer].topics:
                yield SharedPositions("mq", topic, sharing.open[sharer].group.name)
        yield CloseSharer(sharer)

    def _read_all(self, topic: str) -> Iterator[Step]:
        reader = self._choose.new("c")
        yield OpenReader(reader, "mq", (topic,), Symbol("EARLIEST"))
        while reader in self._play.world.consumers.open and self._play.world.consumers.must_come(reader):
            yield ReceiveMany(reader, 1000)
        yield Receive(reader)
        yield Close(reader)
