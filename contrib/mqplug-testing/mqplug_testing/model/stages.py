"""The stages of a world, and the batches that were ingested."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mqplug import Corrupt, Ingested, Message, TopicNotFound
from mqplug_testing.model.logs import Content, LogModel
from mqplug_testing.model.rules import Outcome, check, refused, value_of
from mqplug_testing.model.topics import Sent, Topic, Topics


@attrs.define(eq=False)
class StageModel:
    """The messages of a stage, and whether they can be ingested."""

    topic: Topic
    records: list[Sent] = attrs.field(factory=list)
    gone: bool = False


class Stages:
    """All stages by name, and the last number of each writer."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._last: dict[str, int] = {}
        self.open: dict[str, StageModel] = {}
        self.finished: dict[str, StageModel] = {}

    def next_number(self, writer: str) -> int:
        """Return the first number that a writer has not used."""
        return self._last.get(writer, -1) + 1

    def opened(self, stage: str, topic: str, outcome: Outcome) -> None:
        """Judge the opening of a stage."""
        if not self._topics.exists(topic):
            refused(outcome, "missing", TopicNotFound)
            return
        value_of(outcome, "staged")
        self.open[stage] = StageModel(self._topics.current[topic])

    def written(self, stage: str, records: Sequence[Sent], outcome: Outcome) -> None:
        """Judge ``write``. A stage may not know partitions that another client added."""
        model = self.open[stage]
        there = len(model.topic.logs)
        if outcome.error is not None or any((each.partition or 0) >= there for each in records):
            unknown = model.topic.grown or any((each.partition or 0) >= there for each in records)
            check(unknown, "staged", "success", outcome)
            refused(outcome, "partition", ValueError)
        else:
            model.records += records

    def ended(self, stage: str, staged: str, outcome: Outcome) -> None:
        """Judge ``finish``, given the topic and the number of messages of its result."""
        model = self.open.pop(stage)
        wanted = (model.topic.name, len(model.records))
        check(value_of(outcome, "staged") == wanted, "staged", wanted, outcome)
        self.finished[staged] = model

    def left(self, stage: str, outcome: Outcome) -> None:
        """Judge the discarding of an open stage."""
        value_of(outcome, "discard")
        del self.open[stage]

    def discarded(self, staged: str, outcome: Outcome) -> None:
        """Judge ``discard`` of a finished stage."""
        value_of(outcome, "discard")
        self.finished[staged].gone = True

    def ingested(self, staged: Sequence[str], writer: str, number: int, outcome: Outcome) -> Sequence[Sent] | None:
        """Judge ``ingest``. Return the records that it took in. A backend may know no stage without messages."""
        stages = [self.finished[each] for each in staged]
        repeats = number <= self._last.get(writer, -1)
        gone = any((each.gone or each.topic.deleted) and each.records for each in stages)
        may_be_gone = any(each.gone or each.topic.deleted for each in stages)
        if (gone and not repeats) or (may_be_gone and outcome.error is not None):
            refused(outcome, "gone", Corrupt, TopicNotFound)
            return None
        done: Ingested = value_of(outcome, "ingest")
        check(done.repeated is repeats, "ingest-repeated", f"repeated={repeats}", outcome)
        for each in stages:
            each.gone = True
        if repeats:
            return None
        records = [record for each in stages for record in each.records]
        check(done.messages == len(records), "ingest", f"{len(records)} messages", outcome)
        self._last[writer] = number
        return records

    def stored(
        self,
        topic: str,
        records: Sequence[Sent],
        messages: Sequence[Message],
        done: Ingested,
        between: tuple[int, int],
    ) -> dict[str, int]:
        """Judge all messages of a topic after an ingest. Return where the message of each record is among them."""
        there = self._topics.current[topic]
        new = {log: self._new(log, messages) for log in there.logs}
        places = {record.name: self._place(there, record, new, messages) for record in records}
        left = [messages[at] for rows in new.values() for at in rows]
        check(not left, "ingest", f"{len(records)} messages", left)
        ids = [messages[places[record.name]].id for record in records]
        self._topics.committed(topic, records, ids, between, "stage-order")
        for log in {each.log for each in ids}:
            of_log = [each for each in ids if each.log is log]
            found = done.placed.get(log)
            seen = None if found is None else (found.first_id, found.last_id)
            check(seen == (of_log[0], of_log[-1]), "placed", (of_log[0], of_log[-1]), seen)
        return places

    def _new(self, log: LogModel, messages: Sequence[Message]) -> list[int]:
        mine = [at for at, message in enumerate(messages) if message.id.log is log.log]
        return [at for at in mine if log.row(messages[at].id) is None]

    def _place(self, topic: Topic, record: Sent, new: dict[LogModel, list[int]], messages: Sequence[Message]) -> int:
        """Take the next message of a log that is this record."""
        for log, rows in new.items():
            if record.partition in {None, log.log.partition} and rows and _is(messages[rows[0]], record.content):
                return rows.pop(0)
        check(False, "stage-order", record.content, [messages[rows[0]] for rows in new.values() if rows])
        raise AssertionError


def _is(message: Message, content: Content) -> bool:
    return (message.value, message.key, tuple(message.headers)) == (content.value, content.key, content.headers)
