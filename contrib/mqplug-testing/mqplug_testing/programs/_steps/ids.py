"""Steps that compare ids, read them from text, and use those that cannot be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import attrs

from mqplug import InvalidMessageId
from mqplug_testing.model.rules import check, refused, value_of
from mqplug_testing.programs._steps.base import OfConsumer, Step
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement
from mqplug_testing.programs.starts import Place


@attrs.frozen
class CompareIds(Step):
    """Compare the ids of two messages."""

    one: str
    other: str

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        one, other = choose.message(), choose.message()
        return None if one is None or other is None else cls(one, other)

    def needs(self) -> Sequence[str]:
        return [self.one, self.other]

    def perform(self, play: Play) -> None:
        one, other = self.one, self.other
        topics = play.world.topics
        (_, log, first), (_, its, second) = topics.messages[one], topics.messages[other]
        equality = play.execute(Statement(f"({one} == {other}, {one} != {other}, len({{{one}, {other}}}))"))
        wanted = (one == other, one != other, 1 if one == other else 2)
        check(value_of(equality, "ids") == wanted, "ids", wanted, equality)
        stranger = play.execute(Statement(f"({one} == str({one}), {one} != 7)"))
        check(value_of(stranger, "ids") == (False, True), "ids", (False, True), stranger)
        refused(play.execute(Statement(f"{one} < 7")), "ids", TypeError)
        order = play.execute(Statement(f"({one} < {other}, {one} <= {other}, {one} > {other}, {one} >= {other})"))
        if log is not its:
            refused(order, "ids", TypeError)
            return
        at, of = log.stored.index(first), log.stored.index(second)
        ordered = (at < of, at <= of, at > of, at >= of)
        check(value_of(order, "ids") == ordered, "ids", ordered, order)


@attrs.frozen
class ReadIds(Step):
    """Read an id from its text, from a part of it, and from a pickle."""

    message: str
    cut: int

    weight = 0.5

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        message = choose.message()
        return None if message is None else cls(message, choose.luck.choice((1, 2, 8, 20)))

    def needs(self) -> Sequence[str]:
        return [self.message]

    def perform(self, play: Play) -> None:
        wanted, name = play.names[self.message], self.message
        parsed = play.execute(Statement(f"mqplug.MessageId.parse(str({name}))"))
        copied = play.execute(Statement(f"pickle.loads(pickle.dumps({name}))"))
        for outcome in (parsed, copied):
            same = value_of(outcome, "id-text", repr(wanted))
            right = (same, hash(same), same.detail, str(same)) == (wanted, hash(wanted), wanted.detail, str(wanted))
            check(right, "id-text", repr(wanted), outcome)
        for text in (f"str({name})[:-{self.cut}]", f"str({name}) + '0'", f"str({name}).replace('m1', 'p1')"):
            refused(play.execute(Statement(f"mqplug.MessageId.parse({text})")), "foreign", InvalidMessageId)
        refused(play.execute(Statement(f"setattr({name}, 'coordinates', (1,))")), "id-text", AttributeError)


TWISTS: Final = {
    "longer": "({place}.coordinates + (0,))",
    "negative": "(-1, *{place}.coordinates[1:])",
    "empty": "()",
}


@attrs.frozen
class SeekNowhere(OfConsumer):
    """Seek to a position that the backend cannot have issued, or resolve it."""

    place: Place
    twist: str
    client: str

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer()
        place = None if consumer is None else choose.place(choose.luck.choice(consumer.topics))
        if consumer is None or place is None:
            return None
        return cls(consumer.name, attrs.evolve(place, further=0), choose.luck.choice(list(TWISTS)), choose.client())

    def needs(self) -> Sequence[str]:
        return [self.consumer, *self.place.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play):
            return False
        log = play.names[self.place.name][self.place.partition].log
        return log in play.world.consumers.open[self.consumer].readings and play.world.topics.of(log) is not None

    def perform(self, play: Play) -> None:
        place = self.place.code()
        twisted = f"mqplug.Position({place}.log, {TWISTS[self.twist].format(place=place)})"
        refused(self.call(play, f"seek({twisted}, missing='next')"), "foreign", InvalidMessageId)
        resolve = Statement(f"{self.client}.resolve({place}.log.topic, {twisted}, missing='next')")
        refused(play.execute(resolve), "foreign", InvalidMessageId)
        if play.able.advance:
            refused(play.execute(Statement(f"{self.client}.advance({twisted}, 1)")), "foreign", InvalidMessageId)
            elsewhere = Statement(f"{self.client}.advance({self._elsewhere()}, 1)")
            refused(play.execute(elsewhere), "foreign", InvalidMessageId)

    def _elsewhere(self) -> str:
        place = self.place.code()
        log = f"mqplug.Log({place}.log.backend, {place}.log.cluster + 'x', {place}.log.topic, {self.place.partition})"
        return f"mqplug.Position({log}, {place}.coordinates)"
