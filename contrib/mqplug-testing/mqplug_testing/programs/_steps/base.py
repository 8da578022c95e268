"""What all steps have in common.

A step is a class: ``draw`` says when it may be generated and with which arguments, ``perform`` makes the call and has
the model judge the outcome. ``__init__`` of this package lists them all.

Arguments are names: ``t1`` is a topic, ``p1`` a producer, ``c1`` a consumer, ``g1`` a group, ``m1`` the id of a sent
message, ``x1`` positions that ``resolve`` returned. A step whose names have no value, because an earlier step was
removed or failed, is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import attrs

from mqplug_testing.model import Outcome
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement


@attrs.frozen
class Step:
    """A step."""

    weight: ClassVar[float] = 1.0  # how likely it is
    capabilities: ClassVar[tuple[str, ...]] = ()  # without which it is not generated
    hooks: ClassVar[tuple[str, ...]] = ()  # functions that the run must offer

    @property
    def kind(self) -> str:
        """The name of the operation in the coverage."""
        return type(self).__name__

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        """Return a random step of this kind, or None if none fits now."""
        raise NotImplementedError

    def needs(self) -> Sequence[str]:
        """Return the names that must have a value before it."""
        return []

    def applies(self, play: Play) -> bool:
        """Return whether the model can judge the step now."""
        return play.has(self.needs())

    def perform(self, play: Play) -> None:
        """Make the call, and let the model judge it. Raises ``RuleBroken``."""
        raise NotImplementedError


@attrs.frozen
class OfTopic(Step):
    """A call of a client about one topic."""

    client: str
    topic: str

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.client(), topic)

    def needs(self) -> Sequence[str]:
        return [self.topic]

    def call(self, play: Play, method: str, more: str = "") -> Outcome:
        """Call a method of the client with the topic and more arguments."""
        return play.execute(Statement(f"{self.client}.{method}({self.topic}{more})"))


@attrs.frozen
class OfConsumer(Step):
    """A call of an open consumer."""

    consumer: str

    members: ClassVar[bool] = False  # whether it is about acks

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.consumer(members=cls.members)
        return None if consumer is None else cls(consumer.name)

    def needs(self) -> Sequence[str]:
        return [self.consumer]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and self.consumer in play.world.consumers.open

    def call(self, play: Play, code: str, *names: str) -> Outcome:
        """Evaluate the code after the consumer's name and a dot, and tell the model of hand-overs."""
        outcome = play.execute(Statement(f"{self.consumer}.{code}", names))
        play.settle()
        return outcome


def missing(lenient: bool) -> str:
    """Return the argument ``missing=``, if it is not the default."""
    return ', missing="next"' if lenient else ""
