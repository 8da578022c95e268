"""Steps that close and open clients, and stop and start the backend."""

from __future__ import annotations

from typing import Self

import attrs

from mqplug import CloseIncomplete, ConnectError, Timeout
from mqplug_testing.model import Outcome
from mqplug_testing.model.readings import Hand, Work
from mqplug_testing.model.rules import check, refused, value_of
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import CLIENTS, Play, Statement

BRIEF_S = 1  # the timeout of calls while the backend is away


@attrs.frozen
class ReopenClient(Step):
    """Close the second client with all that it opened, and connect again."""

    weight = 0.5
    capabilities = ("multi_client",)

    @classmethod
    def draw(cls, choose: Choices) -> Self:  # noqa: ARG003 - it needs nothing
        return cls()

    def perform(self, play: Play) -> None:
        close(play, "other")
        value_of(play.execute(Statement("connect()", ("other",))), "close")


@attrs.frozen
class Restart(Step):
    """Close both clients, restart the backend, and connect again."""

    weight = 0.3
    hooks = ("restart",)

    @classmethod
    def draw(cls, choose: Choices) -> Self:  # noqa: ARG003 - it needs nothing
        return cls()

    def applies(self, play: Play) -> bool:
        return "restart" in play.names

    def perform(self, play: Play) -> None:
        for client in CLIENTS:
            close(play, client)
        value_of(play.execute(Statement("restart()")), "close")
        for client in CLIENTS:
            value_of(play.execute(Statement("connect()", (client,))), "close")


def close(play: Play, client: str) -> None:
    """Close a client, with its consumers, producers and stages."""
    play.settle()
    value_of(play.execute(Statement(f"{client}.close()")), "close")
    for name in play.opened_by(client):
        if name in play.world.consumers.open:
            play.world.consumers.closed(name, Outcome())
        if name in play.world.sharing.open:
            play.world.sharing.closed(name, Outcome())
        play.world.stages.open.pop(name, None)
        del play.names[name]


@attrs.frozen
class Outage(Step):
    """Kill the backend after all members have committed, ask it for something, close a consumer, and start it again."""

    client: str
    topic: str
    consumer: str | None

    weight = 0.5
    capabilities = ("persistent",)
    hooks = ("kill", "start")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic, consumer = choose.topic(), choose.consumer()
        leaves = consumer.name if consumer is not None and choose.likely(0.3) else None
        return None if topic is None else cls(choose.client(), topic, leaves)

    def applies(self, play: Play) -> bool:
        readings = [each for model in play.world.consumers.open.values() for each in model.readings.values()]
        nacked = any(Hand.NACKED in each.hands.values() for each in readings if isinstance(each, Work))
        there = self.consumer is None or self.consumer in play.world.consumers.open
        return "kill" in play.names and there and play.world.topics.exists(self.topic) and not nacked

    def perform(self, play: Play) -> None:
        consumers = play.world.consumers
        for name, model in consumers.open.items():
            if model.group is not None:
                consumers.committed(name, play.execute(Statement(f"{name}.commit()")))
        play.settle()
        value_of(play.execute(Statement("kill()")), "outage")
        began = play.now()
        asked = play.execute(Statement(f"{self.client}.watermarks({self.topic}, timeout={BRIEF_S})"))
        if asked.error is not None:
            refused(asked, "outage", ConnectError, Timeout)
        closed = Outcome() if self.consumer is None else play.execute(Statement(f"{self.consumer}.close({BRIEF_S})"))
        if closed.error is not None:
            refused(closed, "close", CloseIncomplete, ConnectError, Timeout)
        took = play.now() - began
        check(took <= 2 * BRIEF_S + play.patience, "timeout", f"at most {2 * BRIEF_S} s", f"{took} s")
        value_of(play.execute(Statement("start()")), "outage")
        play.settle()
        if self.consumer is not None:
            consumers.closed(self.consumer, Outcome())
            del play.names[self.consumer]
