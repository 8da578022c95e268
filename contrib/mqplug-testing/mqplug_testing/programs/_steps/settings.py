"""Steps that describe and alter the settings of topics."""

from __future__ import annotations

from typing import Self

import attrs

from mqplug_testing.model import Outcome
from mqplug_testing.model.settings import Settings
from mqplug_testing.programs._steps.base import OfTopic
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import CLIENTS, Play, Statement

DAY_S = 24 * 3600
RETENTIONS = (None, 30 * DAY_S, 60 * DAY_S, 90 * DAY_S)
SIZES = (None, 10**9, 2 * 10**9)
WRONG = {
    "": "TypeError", ", options={}": "TypeError", ", retention='1d'": "TypeError", ", retention_bytes=1.5": "TypeError",
    ", retention=7": "ValueError", ", retention_bytes=-1": "ValueError",
    f", retention={40 * DAY_S}, options={{'no.such.option': '1'}}": "ConfigError",
}  # fmt: skip


def settings(outcome: Outcome) -> Outcome:
    """Return the settings of a described topic."""
    if outcome.error is not None:
        return outcome
    return Outcome(Settings(outcome.value.retention, outcome.value.retention_bytes))


@attrs.frozen
class DescribeTopic(OfTopic):
    """Describe a topic."""

    weight = 0.5

    def perform(self, play: Play) -> None:
        play.world.settings.described(self.topic, settings(self.call(play, "describe")))


@attrs.frozen
class AlterTopic(OfTopic):
    """Alter the retention of a topic, and describe it."""

    retention: int | None
    retention_bytes: int | None

    capabilities = ("alter_topic", "retention")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        retention, size = choose.luck.choice(RETENTIONS), choose.luck.choice(SIZES)
        return None if topic is None or retention is size is None else cls(choose.client(), topic, retention, size)

    def perform(self, play: Play) -> None:
        given = {"retention": self.retention, "retention_bytes": self.retention_bytes}
        more = "".join(f", {name}={value}" for name, value in given.items() if value is not None)
        before = settings(self.call(play, "describe"))
        outcome = settings(self.call(play, "alter_topic", more))
        play.world.settings.altered(self.topic, before, Settings(self.retention, self.retention_bytes), outcome)
        for client in CLIENTS if play.able.multi_client else [self.client]:
            described = play.execute(Statement(f"{client}.describe({self.topic})"))
            play.world.settings.described(self.topic, settings(described))


@attrs.frozen
class AlterWrongly(OfTopic):
    """Alter a topic with arguments that are refused."""

    more: str

    weight = 0.5
    capabilities = ("alter_topic", "retention")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.client(), topic, choose.luck.choice(list(WRONG)))

    def perform(self, play: Play) -> None:
        play.world.settings.described(self.topic, settings(self.call(play, "describe")))
        outcome = self.call(play, "alter_topic", self.more)
        play.world.settings.refused(self.topic, WRONG[self.more], outcome)
        play.world.settings.described(self.topic, settings(self.call(play, "describe")))
