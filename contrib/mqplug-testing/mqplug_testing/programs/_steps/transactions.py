"""The step that is a whole transaction."""

from __future__ import annotations

import time
from typing import Self

import attrs

from mqplug import ConsumerBusy, Fenced, NotCommitted
from mqplug_testing.model.readings import Hand, Work
from mqplug_testing.model.rules import refused, value_of
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
        number = choose.luck.randint(1, 3) if choose.likely(0.6) else None
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
        if end == "aborted":
            topics.aborted(self.topic)
        between = (began, time.time_ns() // 1_000_000)
        transactions.results(self.topic, self.records, outcomes, between, end)


@attrs.frozen
class TransactAcks(Step):
    """Receive in a transaction, ack some of what is in hand, send, and commit or abort."""

    name: str
    client: str
    consumer: str
    topic: str
    records: tuple[Sent, ...]
    most: int
    every: int  # acks one in so many
    tries: tuple[str, ...]  # what is done in the step besides
    commits: bool

    weight = 2.5
    capabilities = ("transactions", "durable_groups", "ordered")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic, consumer, luck = choose.topic(), choose.consumer(members=True), choose.luck
        if topic is None or consumer is None or consumer.group is None:
            return None
        client = choose.play.owner(consumer.name)
        records = tuple(choose.record(topic) for _ in range(luck.choice((0, 1, 2))))
        tries = tuple(each for each in ("commit", "seek", "flush") if choose.likely(0.3))
        return cls(
            "n1" if client == "mq" else "n2", client, consumer.name, topic, records, luck.choice((1, 2, 10)),
            luck.choice((1, 2, 3)), tries, choose.likely(0.6),
        )  # fmt: skip

    def applies(self, play: Play) -> bool:
        topics, model = play.world.topics, play.world.consumers.open.get(self.consumer)
        if model is None or model.auto_ack or not all(map(topics.exists, (self.topic, *model.topics))):
            return False
        there = topics.current[self.topic]
        works = [each for each in model.readings.values() if isinstance(each, Work)]
        quiet = not any(each.blocking or each.paused or each.failed or each.may_be_lost() for each in works)
        known = not there.recreated and len(there.logs) > max((each.partition or 0 for each in self.records), default=0)
        return quiet and known and not any(each.log.deleted for each in works)

    def perform(self, play: Play) -> None:
        play.name(self.name)
        began, consumers = time.time_ns() // 1_000_000, play.world.consumers
        code = f"{self.client}.transaction({self.name}, {self.topic}, consumer={self.consumer})"
        value_of(play.execute(Statement(code, ("step",))), "atomic")
        self._receive(play)
        acked = self._ack(play)
        self._try(play)
        handles = [f"h{index}" for index in range(len(self.records))]
        for record, handle in zip(self.records, handles, strict=True):
            value_of(play.execute(Statement(f"step.send({arguments(record)})", (handle,))), "atomic")
        if "flush" in self.tries:
            value_of(play.execute(Statement("step.flush()")), "atomic")
        play.world.topics.bounds(self.topic, play.execute(Statement(f"{self.client}.bounds({self.topic})")))
        ended = play.execute(Statement("step.commit()" if self.commits else "step.abort()"))
        value_of(ended, "atomic")
        consumers.step_ended(self.consumer, acked, commits=self.commits)
        if not self.commits:
            play.world.topics.aborted(self.topic)
        outcomes = [
            play.execute(Statement(f"{handle}.result(0)", (record.name,)))
            for record, handle in zip(self.records, handles, strict=True)
        ]
        between = (began, time.time_ns() // 1_000_000)
        end = "committed" if self.commits else "aborted"
        if self.commits or "flush" not in self.tries:  # after it the handles have ids, which an abort makes invalid
            play.world.transactions.results(self.topic, self.records, outcomes, between, end)
        play.settle()

    def _receive(self, play: Play) -> None:
        play.settle()
        waits, name = play.world.consumers.must_come(self.consumer), play.next_received()
        wait = play.patience if waits else 0
        received = play.execute(Statement(f"{self.consumer}.receive_many({self.most}, {wait})", (name,)))
        play.settle()
        play.world.consumers.received_many(self.consumer, self.most, received, waited=waits, now=play.now())
        play.note(self.consumer, received.value or (), f"{name}[{{}}]")

    def _ack(self, play: Play) -> list[tuple[Work, int]]:
        """Ack some of the messages in hand."""
        readings = play.world.consumers.open[self.consumer].readings.values()
        held = [
            (work, row) for work in readings if isinstance(work, Work)
            for row, hand in sorted(work.hands.items()) if hand is Hand.OPEN
        ]  # fmt: skip
        acked = held[:: self.every]
        for work, row in acked:
            message = play.hands[self.consumer, work.log.stored[row].id]
            value_of(play.execute(Statement(f"{self.consumer}.ack({message})")), "ack")
        return acked

    def _try(self, play: Play) -> None:
        """Commit, which stores only the acks from before the step, and seek, which is refused."""
        if "commit" in self.tries:
            play.world.consumers.committed(self.consumer, play.execute(Statement(f"{self.consumer}.commit()")))
            group = play.world.consumers.open[self.consumer].group
            for topic in play.world.consumers.open[self.consumer].topics:
                asked = play.execute(Statement(f"{self.client}.positions({topic}, group={group})"))
                play.world.groups.positions(group or "", topic, asked)
        if "seek" in self.tries:
            refused(play.execute(Statement(f"{self.consumer}.seek(mqplug.EARLIEST)")), "step-seek", ConsumerBusy)


@attrs.frozen
class Fence(Step):
    """Take a transaction's name over from another client, which has a step open."""

    name: str
    topic: str
    record: Sent

    weight = 0.5
    capabilities = ("transactions", "multi_client")

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.new("f"), topic, choose.record(topic, partition=0))

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        return topics.exists(self.topic) and not topics.current[self.topic].recreated

    def perform(self, play: Play) -> None:
        play.name("n1")
        name, topics = f"n1 + '-{self.name}'", play.world.topics
        value_of(play.execute(Statement(f"mq.transaction({name}, {self.topic})", ("old",))), "atomic")
        value_of(play.execute(Statement("old.send(b'never seen')", ("lost",))), "atomic")
        began = time.time_ns() // 1_000_000
        value_of(play.execute(Statement(f"other.transaction({name}, {self.topic})", ("step",))), "fence")
        value_of(play.execute(Statement(f"step.send({arguments(self.record)})", ("handle",))), "atomic")
        refused(play.execute(Statement("old.commit()")), "fence", Fenced)
        topics.aborted(self.topic)
        refused(play.execute(Statement("lost.result(0)")), "not-committed", NotCommitted, Fenced)
        refused(play.execute(Statement(f"mq.transaction({name}, {self.topic})")), "fence", Fenced)
        value_of(play.execute(Statement("step.commit()")), "fence")
        stored = play.execute(Statement("handle.result(0)", (self.record.name,)))
        between = (began, time.time_ns() // 1_000_000)
        play.world.transactions.results(self.topic, [self.record], [stored], between, "committed")
        topics.bounds(self.topic, play.execute(Statement(f"mq.bounds({self.topic})")))
