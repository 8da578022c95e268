"""Steps that stage messages, and ingest them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import attrs

from mqplug import ConfigError
from mqplug_testing.model.rules import refused
from mqplug_testing.model.topics import Sent
from mqplug_testing.programs._steps.base import OfTopic, Step
from mqplug_testing.programs._steps.producing import arguments
from mqplug_testing.programs.choices import Choices
from mqplug_testing.programs.play import Play, Statement

WRITERS = ("w1", "w2")


@attrs.frozen
class OpenStage(OfTopic):
    """Open a stage."""

    stage: str

    capabilities = ("staged_ingest",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        topic = choose.topic()
        return None if topic is None else cls(choose.client(), topic, choose.new("s"))

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.stage({self.topic})", (self.stage,)))
        play.world.stages.opened(self.stage, self.topic, outcome)


@attrs.frozen
class OfStage(Step):
    """A call of an open stage."""

    stage: str

    capabilities = ("staged_ingest",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        stage = choose.one(list(choose.world.stages.open))
        return None if stage is None else cls(stage)

    def needs(self) -> Sequence[str]:
        return [self.stage]

    def applies(self, play: Play) -> bool:
        stage = play.world.stages.open.get(self.stage)
        return super().applies(play) and stage is not None and not stage.topic.deleted


@attrs.frozen
class WriteStage(OfStage):
    """Write records to a stage."""

    records: tuple[Sent, ...]

    weight = 3

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        stage = choose.one(list(choose.world.stages.open))
        if stage is None:
            return None
        of = choose.world.stages.open[stage].topic
        topic = next((name for name, each in choose.world.topics.current.items() if each is of), None)
        if topic is None:
            return None
        return cls(stage, tuple(_unlike_others(choose.record(topic)) for _ in range(choose.luck.choice((0, 1, 2, 5)))))

    def perform(self, play: Play) -> None:
        records = ", ".join(f"mqplug.Record({arguments(each)})" for each in self.records)
        outcome = play.execute(Statement(f"{self.stage}.write([{records}])"))
        play.world.stages.written(self.stage, self.records, outcome)


def _unlike_others(record: Sent) -> Sent:
    """Give a record without a partition a value that no other has, so that it can be found wherever it went."""
    if record.partition is not None:
        return record
    return attrs.evolve(record, content=attrs.evolve(record.content, value=record.name.encode()))


@attrs.frozen
class FinishStage(OfStage):
    """Finish a stage."""

    staged: str

    weight = 2

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        stage = choose.one(list(choose.world.stages.open))
        return None if stage is None else cls(stage, choose.new("u"))

    def perform(self, play: Play) -> None:
        finished = play.execute(Statement(f"{self.stage}.finish()", (self.staged,)))
        if finished.error is None:
            finished = attrs.evolve(finished, value=(finished.value.topic, finished.value.messages))
        play.world.stages.ended(self.stage, self.staged, finished)


@attrs.frozen
class LeaveStage(OfStage):
    """Discard an open stage."""

    weight = 0.3

    def perform(self, play: Play) -> None:
        play.world.stages.left(self.stage, play.execute(Statement(f"{self.stage}.discard()")))


@attrs.frozen
class OfStaged(Step):
    """A step with a finished stage."""

    client: str
    staged: str

    weight = 0.4
    capabilities = ("staged_ingest",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        staged = choose.one(choose.named("u"))
        return None if staged is None else cls(choose.client(), staged)

    def needs(self) -> Sequence[str]:
        return [self.staged]


@attrs.frozen
class DiscardStaged(OfStaged):
    """Discard the messages of a finished stage."""

    def perform(self, play: Play) -> None:
        play.world.stages.discarded(self.staged, play.execute(Statement(f"{self.client}.discard({self.staged})")))


@attrs.frozen
class Ingest(Step):
    """Ingest one or two stages of one topic, and look where their messages are."""

    client: str
    staged: tuple[str, ...]
    writer: str
    number: int

    weight = 2.5
    capabilities = ("staged_ingest",)

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        stages = choose.world.stages.finished
        there = [name for name, each in stages.items() if not each.gone or choose.likely(0.2)]
        first = choose.one(there)
        if first is None:
            return None
        others = [each for each in there if each != first and stages[each].topic is stages[first].topic]
        more = choose.luck.sample(others, choose.luck.randint(0, len(others)))
        number = choose.luck.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 2**53, 2**63 - 1))
        return cls(choose.client(), (first, *more), choose.luck.choice(WRITERS), number)

    def needs(self) -> Sequence[str]:
        return self.staged

    def perform(self, play: Play) -> None:
        play.name(self.writer)
        began = time.time_ns() // 1_000_000
        staged = ", ".join(self.staged)
        outcome = play.execute(
            Statement(f"{self.client}.ingest([{staged}], writer={self.writer}, number={self.number})", ("done",))
        )
        records = play.world.stages.ingested(self.staged, self.writer, self.number, outcome)
        there = play.world.stages.finished[self.staged[0]].topic
        if records is None or there.deleted:
            return
        topic = next(name for name, each in play.world.topics.current.items() if each is there)
        order = "key=lambda each: (each.partition, each.id.coordinates)"
        read = play.execute(
            Statement(f"sorted({self.client}.read({topic}, timeout={play.patience}), {order})", ("found",))
        )
        between = (began, time.time_ns() // 1_000_000)
        found = play.world.stages.stored(topic, records, read.value or [], outcome.value, between)
        if found:
            ids = ", ".join(f"found[{at}].id" for at in found.values())
            play.execute(Statement(f"[{ids}]", tuple(found), many=True))


@attrs.frozen
class IngestStranger(OfStaged):
    """Ingest a stage of another store."""

    writer: str = ""

    @classmethod
    def draw(cls, choose: Choices) -> Self | None:
        drawn = super().draw(choose)
        return None if drawn is None else attrs.evolve(drawn, writer=choose.luck.choice(WRITERS))

    def applies(self, play: Play) -> bool:
        return super().applies(play) and play.world.stages.next_number(self.writer) < 2**63

    def perform(self, play: Play) -> None:
        play.name(self.writer)
        same = ", ".join(f"{self.staged}.{name}" for name in ("topic", "messages", "size", "detail"))
        stranger = f"mqplug.Staged({self.staged}.backend, 'another', {same})"
        number = play.world.stages.next_number(self.writer)
        outcome = play.execute(Statement(f"{self.client}.ingest({stranger}, writer={self.writer}, number={number})"))
        refused(outcome, "stranger", ConfigError)
