"""Steps that ack, nack and commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import attrs

from mqplug import MessageId
from mqplug_testing.model.consumers import ConsumerModel
from mqplug_testing.model.readings import Hand, Work
from mqplug_testing.programs._steps.base import OfConsumer
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement


def in_hand(choose: Choices, consumer: ConsumerModel) -> str | None:
    """Return a message that a consumer may ack: most often one that it has, at times any."""
    works = [each for each in consumer.readings.values() if isinstance(each, Work)]
    there: list[MessageId] = [
        work.log.stored[row].id for work in works for row, hand in work.hands.items() if hand is Hand.OPEN
    ]
    if choose.likely(0.1):
        there = list(consumer.seen)
    if there:
        names = choose.world.topics.names
        return choose.luck.choice(sorted((names[each] for each in there), key=lambda name: int(name[1:])))
    return choose.message() if choose.likely(0.1) else None


@attrs.frozen
class Ack(OfConsumer):
    """Ack a message, by its id if the consumer was not given it."""

    message: str

    weight = 5
    members = True
    method: ClassVar[str] = "ack"

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer(members=True)
        message = None if consumer is None else in_hand(choose, consumer)
        return None if consumer is None or message is None else cls(consumer.name, message)

    def needs(self) -> Sequence[str]:
        return [self.consumer, self.message]

    def applies(self, play: Play) -> bool:
        # With auto_ack, a message that was seen may be acked only with the next commit.
        return super().applies(play) and not play.world.consumers.open[self.consumer].auto_ack

    def perform(self, play: Play) -> None:
        wanted = play.names[self.message]
        message = play.hands.get((self.consumer, wanted), self.message)
        outcome = play.execute(Statement(f"{self.consumer}.{self.method}({message})"))
        consumers = play.world.consumers
        judge = consumers.acked if self.method == "ack" else consumers.acked_through
        judge(self.consumer, wanted, outcome)
        play.settle()


@attrs.frozen
class AckThrough(Ack):
    """Ack all messages up to one."""

    weight = 1
    capabilities = ("cumulative_ack",)
    method = "ack_through"


@attrs.frozen
class Nack(OfConsumer):
    """Nack a message that the consumer was given."""

    message: str
    delay: float = 0

    weight = 2
    members = True

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer(members=True)
        message = None if consumer is None else in_hand(choose, consumer)
        if consumer is None or message is None:
            return None
        return cls(consumer.name, message, choose.luck.choice((0, 0, 0.01, 0.2)))

    def needs(self) -> Sequence[str]:
        return [self.consumer, self.message]

    def applies(self, play: Play) -> bool:
        if not super().applies(play) or (self.consumer, play.names[self.message]) not in play.hands:
            return False
        model = play.world.consumers.open[self.consumer]
        if model.auto_ack or play.world.letters.last_attempt(self.consumer, self.message):
            return False
        readings = model.readings.values()
        return not any(isinstance(each, Work) and each.returning for each in readings)

    def perform(self, play: Play) -> None:
        wanted = play.names[self.message]
        due = play.now() + self.delay
        outcome = play.execute(Statement(f"{self.consumer}.nack({play.hands[self.consumer, wanted]}, {self.delay})"))
        play.world.consumers.nacked(self.consumer, wanted, due, outcome)
        play.settle()


@attrs.frozen
class Commit(OfConsumer):
    """Commit."""

    members = True

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.consumer}.commit()"))
        play.world.consumers.committed(self.consumer, outcome)
        play.settle()
