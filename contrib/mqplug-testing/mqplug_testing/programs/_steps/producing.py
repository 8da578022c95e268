"""Steps that open producers and send."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Self

import attrs

from mqplug_testing.model import Outcome
from mqplug_testing.model.rules import value_of
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement

CALL_TIMEOUT_S = 30
LONG = 500


def arguments(record: Sent) -> str:
    """Return a record as the arguments of ``send``, or of ``Record``."""
    content = record.content
    given = {"key": content.key, "timestamp": content.timestamp, "partition": record.partition}
    named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if content.headers:
        named.append(f"headers={list(content.headers)!r}")
    return ", ".join([_brief(content.value), *named])


def _brief(value: bytes | None) -> str:
    """Return a value as Python, a long one of equal bytes as a product."""
    if value is None or len(value) < LONG or len(set(value)) > 1:
        return repr(value)
    return f"{value[:1]!r} * {len(value)}"


@attrs.frozen
class OpenProducer(Step):
    """Open a producer."""

    producer: str
    client: str
    topic: str

    weight = 0.5

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.new("p"), choose.client(), topic)

    def applies(self, play: Play) -> bool:
        return play.world.topics.exists(self.topic) and self.producer not in play.names

    def perform(self, play: Play) -> None:
        value_of(play.execute(Statement(f"{self.client}.producer({self.topic})", (self.producer,))), "missing")
        play.world.topics.producers[self.producer] = play.world.topics.current[self.topic]


@attrs.frozen
class Send(Step):
    """Send a record."""

    producer: str
    topic: str
    records: tuple[Sent, ...]

    weight = 3
    counts: ClassVar[Sequence[int]] = (1,)
    partition: ClassVar[float] = 0.7  # how many records name theirs

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        producer = choose.one(choose.named("p"))
        if producer is None:
            return None
        topics, of = choose.world.topics, choose.play.names[producer].topic
        topic = next(name for name, each in topics.current.items() if each.name == of)
        if not choose.world.topics.exists(topic) and choose.likely(0.8):
            return None
        count = choose.luck.choice(cls.counts)
        records = [choose.record(topic, partition=cls.partition) for _ in range(count)]
        if count == 1 and choose.likely(0.02):
            records = [attrs.evolve(records[0], partition=99)]
        return cls(producer, topic, tuple(records))

    def needs(self) -> Sequence[str]:
        return [self.producer]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and self.topic in play.world.topics.current

    def perform(self, play: Play) -> None:
        began = time.time_ns() // 1_000_000
        many = self.counts != (1,)
        outcome = play.execute(Statement(self.code(), tuple(each.name for each in self.records), many))
        if not many and outcome.error is None:
            outcome = Outcome([outcome.value])
        if outcome.error is not None:
            for each in self.records:
                play.names.pop(each.name, None)
        between = (began, time.time_ns() // 1_000_000)
        play.world.topics.sent(self.topic, self.records, outcome, between, producer=self.producer)

    def code(self) -> str:
        """Return the call."""
        return f"{self.producer}.send({arguments(self.records[0])})"


@attrs.frozen
class SendMany(Send):
    """Send several records with one call."""

    weight = 2
    counts = (1, 2, 3, 8)

    def code(self) -> str:
        records = ", ".join(f"mqplug.Record({arguments(each)})" for each in self.records)
        return f"{self.producer}.send_many([{records}])"


@attrs.frozen
class Submit(Send):
    """Submit several records, and wait for their handles."""

    counts = (1, 2, 3, 8)
    partition = 1.0
    weight = 1

    def applies(self, play: Play) -> bool:
        # Of several handles the first that fails hides the others, which may still be stored in a new topic.
        topics = play.world.topics
        if not super().applies(play) or not topics.exists(self.topic):
            return False
        return topics.producers[self.producer] is topics.current[self.topic]

    def code(self) -> str:
        handles = ", ".join(f"{self.producer}.submit({arguments(each)})" for each in self.records)
        return f"[each.result({CALL_TIMEOUT_S}) for each in [{handles}]]"
