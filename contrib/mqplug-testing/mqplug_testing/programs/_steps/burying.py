"""Steps of members with a topic for dead letters."""

from __future__ import annotations

import time
from typing import Self

import attrs

from mqplug import TopicNotFound
from mqplug_testing.model.rules import refused, value_of
from mqplug_testing.programs._steps.acking import Nack
from mqplug_testing.programs._steps.base import OfConsumer, OfTopic
from mqplug_testing.programs._steps.consuming import OpenMember, Receive
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement

REASON = "no address"
MOST_NACKS = 6  # other partitions may have messages, too


@attrs.frozen
class OpenRetrying(OpenMember):
    """Open a member that gives messages up after some attempts."""

    letters: str = ""
    attempts: int = 1

    weight = 3
    capabilities = ("durable_groups", "ordered", "headers")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        drawn = super().draw(choose)
        others = [] if drawn is None else [each for each in choose.topics if each not in drawn.topics]
        letters = choose.one([each for each in others if choose.world.topics.exists(each)])
        if drawn is None or letters is None:
            return None
        return attrs.evolve(drawn, letters=letters, attempts=choose.luck.choice((1, 2, 3)))

    def applies(self, play: Play) -> bool:
        return super().applies(play) and play.world.topics.exists(self.letters)

    def perform(self, play: Play) -> None:
        super().perform(play)
        if (model := play.world.consumers.open.get(self.consumer)) is not None:
            model.letters, model.attempts = play.world.topics.current[self.letters], self.attempts

    def options(self, play: Play) -> str:
        return f", retry=mqplug.Retry({self.attempts}, delay=0), dead_letter={self.letters}"


@attrs.frozen
class Bury(OfConsumer):
    """Receive, nack a message for the last time or reject it, receive its dead letter, and close the member.

    Only a close waits until the message is acked.
    """

    letter: str
    rejects: bool

    weight = 4
    capabilities = ("durable_groups", "ordered", "headers")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        consumer = choose.one([each.name for each in choose.world.consumers.open.values() if each.letters is not None])
        return None if consumer is None else cls(consumer, choose.new("m"), choose.likely(0.3))

    def applies(self, play: Play) -> bool:
        if not super().applies(play):
            return False
        model = play.world.consumers.open[self.consumer]
        return (
            model.letters is not None and not model.letters.deleted and all(map(play.world.topics.exists, model.topics))
        )

    def perform(self, play: Play) -> None:
        consumers, letters = play.world.consumers, play.world.letters
        Receive(self.consumer).perform(play)
        message = letters.in_hand(self.consumer)
        for _ in range(MOST_NACKS):
            if message is None or self.rejects or letters.last_attempt(self.consumer, message):
                break
            Nack(self.consumer, message).perform(play)
            Receive(self.consumer).perform(play)
            message = letters.in_hand(self.consumer)
        if message is None or not (self.rejects or letters.last_attempt(self.consumer, message)):
            return
        self._bury(play, message)
        consumers.closed(self.consumer, play.execute(Statement(f"{self.consumer}.close()")))
        del play.names[self.consumer]

    def _bury(self, play: Play, message: str) -> None:
        topic = play.world.consumers.open[self.consumer].letters
        name = next(name for name, each in play.world.topics.current.items() if each is topic)
        reason, told = repr(REASON), REASON
        if self.rejects:
            reason, told = f"mqplug.Reject({REASON!r})", f"Reject: {REASON}"
        value_of(play.execute(Statement(f"mq.consumer({name}, start=mqplug.LATEST)", ("letters",))), "latest")
        in_hand = play.hands[self.consumer, play.names[message]]
        value_of(play.execute(Statement(f"{self.consumer}.nack({in_hand}, reason={reason})")), "late")
        found = play.execute(Statement(f"letters.receive({play.patience})", ("letter",)))
        play.execute(Statement("letters.close()"))
        play.settle()
        now_ms = time.time_ns() // 1_000_000
        play.world.letters.buried(self.consumer, message, told, self.letter, found, now_ms)
        play.execute(Statement("letter.id", (self.letter,)))


@attrs.frozen
class BuryAtHome(OfTopic):
    """Try to open a member whose dead letters would go to the topic that it reads."""

    weight = 0.5
    capabilities = ("durable_groups", "ordered", "headers")

    def perform(self, play: Play) -> None:
        play.name("g1")
        opened = self.call(play, "consumer", f", group=g1, retry=mqplug.Retry(2), dead_letter={self.topic}")
        kinds = [ValueError] if play.world.topics.exists(self.topic) else [ValueError, TopicNotFound]
        refused(opened, "own-letters", *kinds)
