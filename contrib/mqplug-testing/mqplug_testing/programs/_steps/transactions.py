"""The step that is a whole transaction."""

from __future__ import annotations

import time
from typing import Self

import attrs

from mqplug_testing.model.rules import value_of
from mqplug_testing.model.topics import Sent
from mqplug_testing.model.transactions import Mark
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs._steps.producing import arguments
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement


@attrs.frozen
class Transact(Step):
    """Send records in a transaction, look for them before its end, and commit or abort it."""

    name: str
    client: str
    topic: str
    records: tuple[Sent, ...]
    number: int | None = None
    commits: bool = True

    weight = 1.5
    capabilities = ("transactions",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        if topic is None:
            return None
        client = choose.client()
        name = "n1" if client == "mq" else "n2"  # two holders of one name would fence each other
        records = tuple(choose.record(topic) for _ in range(choose.luck.choice((1, 2, 5))))
        number = choose.luck.randint(1, 5) if choose.likely(0.6) else None
        return cls(name, client, topic, records, number, commits=choose.likely(0.7))

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        if not topics.exists(self.topic) or topics.current[self.topic].recreated:
            return False  # a transaction learns of a recreated topic within a minute
        there = len(topics.current[self.topic].logs)
        return there > max((each.partition or 0 for each in self.records), default=0)

    def perform(self, play: Play) -> None:
        play.name(self.name)
        transactions, topics = play.world.transactions, play.world.topics
        began = time.time_ns() // 1_000_000
        numbered = "" if self.number is None else f", number={self.number}"
        opened = play.execute(Statement(f"{self.client}.transaction({self.name}, {self.topic}{numbered})", ("step",)))
        value_of(opened, "atomic")
        begun = play.execute(Statement("(step.repeated, step.note)"))
        repeated = transactions.begun(self.name, self.topic, self.number, begun)
        mark = None
        if self.number is not None and not repeated:
            mark = Mark(self.number, f"note {self.number}")
            play.execute(Statement(f"setattr(step, 'note', {mark.note!r})"))
        handles = [f"h{index}" for index in range(len(self.records))]
        for record, handle in zip(self.records, handles, strict=True):
            value_of(play.execute(Statement(f"step.send({arguments(record)})", (handle,))), "atomic")
        topics.bounds(self.topic, play.execute(Statement(f"{self.client}.bounds({self.topic})")))
        ended = play.execute(Statement("step.commit()" if self.commits else "step.abort()"))
        if self.commits and not repeated:
            transactions.committed(self.name, self.topic, mark, ended)
        outcomes = [
            play.execute(Statement(f"{handle}.result(0)", (record.name,)))
            for record, handle in zip(self.records, handles, strict=True)
        ]
        end = "repeated" if repeated else "committed" if self.commits else "aborted"
        between = (began, time.time_ns() // 1_000_000)
        transactions.results(self.topic, self.records, outcomes, between, end)
