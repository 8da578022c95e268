"""The steps of programs: each is a public call with its arguments, the Python text of it, and the judge of its outcome.

Arguments are names: ``t1`` is a topic, ``p1`` a producer, ``c1`` a consumer, ``g1`` a group, ``m1`` the id of a sent
message, ``x1`` positions that ``resolve`` returned. A step whose names have no value, because an earlier step was
removed or failed, is passed over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs

from mqplug import Position
from mqplug_testing.model import Outcome
from mqplug_testing.model.rules import value_of
from mqplug_testing.model.topics import Sent
from mqplug_testing.model.transactions import Mark
from mqplug_testing.programs.play import PLACES, Play, Statement
from mqplug_testing.programs.starts import AnyPlace, NearMessage, Place

CALL_TIMEOUT_S = 30


@attrs.frozen
class Step:
    """A step. ``kind`` names it in the coverage."""

    @property
    def kind(self) -> str:
        """The name of the operation."""
        return type(self).__name__

    def needs(self) -> Sequence[str]:
        """Return the names that must have a value before it."""
        return []

    def applies(self, play: Play) -> bool:
        """Return whether the model can judge the step now."""
        return play.has(self.needs())

    def perform(self, play: Play) -> None:
        """Make the call, and let the model judge it. Raises ``RuleBroken``."""
        raise NotImplementedError


def _missing(lenient: bool) -> str:
    return ', missing="next"' if lenient else ""


# topics ----------------------------------------------------------------------------------------------------


@attrs.frozen
class CreateTopic(Step):
    """Create a topic."""

    client: str
    topic: str
    partitions: int = 1

    def perform(self, play: Play) -> None:
        play.name(self.topic)
        before = play.world.topics.current.get(self.topic)
        created = play.execute(Statement(f"{self.client}.create_topic({self.topic}, partitions={self.partitions})"))
        described = play.execute(Statement(f"{self.client}.partitions({self.topic})"))
        play.world.topics.created(self.topic, self.partitions, created, described)
        if before is not None and before is not play.world.topics.current[self.topic]:
            play.forget_old(before)


@attrs.frozen
class DeleteTopic(Step):
    """Delete a topic."""

    client: str
    topic: str

    def needs(self) -> Sequence[str]:
        return [self.topic]

    def perform(self, play: Play) -> None:
        play.world.topics.deleted(self.topic, play.execute(Statement(f"{self.client}.delete_topic({self.topic})")))


@attrs.frozen
class AddPartitions(Step):
    """Add partitions."""

    client: str
    topic: str
    total: int

    def needs(self) -> Sequence[str]:
        return [self.topic]

    def perform(self, play: Play) -> None:
        added = play.execute(Statement(f"{self.client}.add_partitions({self.topic}, {self.total})"))
        described = play.execute(Statement(f"{self.client}.partitions({self.topic})"))
        if logs := play.world.topics.grown(self.topic, self.total, added, described):
            play.world.groups.grown(play.world.topics.current[self.topic], logs)


@attrs.frozen
class Trim(Step):
    """Trim partitions of a topic before these places."""

    client: str
    topic: str
    before: tuple[Place, ...]

    def needs(self) -> Sequence[str]:
        return [self.topic, *(name for each in self.before for name in each.needs())]

    def perform(self, play: Play) -> None:
        pairs = ", ".join(f"{each.partition}: {each.code()}" for each in self.before)
        outcome = play.execute(Statement(f"{self.client}.trim({self.topic}, {{{pairs}}})"))
        marks = play.execute(Statement(f"{self.client}.watermarks({self.topic})"))
        before = {each.partition: each.model(play) for each in self.before}
        positions = {number: place for number, place in before.items() if isinstance(place, Position)}
        play.world.topics.trimmed(self.topic, positions, outcome, marks)


# sending ---------------------------------------------------------------------------------------------------


@attrs.frozen
class OpenProducer(Step):
    """Open a producer."""

    producer: str
    client: str
    topic: str

    def applies(self, play: Play) -> bool:
        return play.world.topics.exists(self.topic) and self.producer not in play.names

    def perform(self, play: Play) -> None:
        value_of(play.execute(Statement(f"{self.client}.producer({self.topic})", (self.producer,))), "missing")
        play.world.topics.producers[self.producer] = play.world.topics.current[self.topic]


@attrs.frozen
class Send(Step):
    """Send records of one topic: with ``send``, ``send_many`` or ``submit``."""

    producer: str
    topic: str
    records: tuple[Sent, ...]
    way: str = "send"

    @property
    def kind(self) -> str:
        return self.way

    def needs(self) -> Sequence[str]:
        return [self.producer]

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        if not super().applies(play) or self.topic not in topics.current:
            return False
        # Of several handles the first that fails hides the others, which may still be stored in a new topic.
        current = topics.exists(self.topic) and topics.producers[self.producer] is topics.current[self.topic]
        return self.way != "submit" or current

    def perform(self, play: Play) -> None:
        began = time.time_ns() // 1_000_000
        many = self.way == "send_many" or len(self.records) > 1
        outcome = play.execute(Statement(self._code(), tuple(each.name for each in self.records), many))
        if not many and outcome.error is None:
            outcome = Outcome([outcome.value])
        if outcome.error is not None:
            for each in self.records:
                play.names.pop(each.name, None)
        between = (began, time.time_ns() // 1_000_000)
        play.world.topics.sent(self.topic, self.records, outcome, between, producer=self.producer)

    def _code(self) -> str:
        if self.way == "send":
            return f"{self.producer}.send({_arguments(self.records[0])})"
        if self.way == "send_many":
            records = ", ".join(f"mqplug.Record({_arguments(each)})" for each in self.records)
            return f"{self.producer}.send_many([{records}])"
        handles = ", ".join(f"{self.producer}.submit({_arguments(each)})" for each in self.records)
        if len(self.records) == 1:
            return f"{handles}.result({CALL_TIMEOUT_S})"
        return f"[each.result({CALL_TIMEOUT_S}) for each in [{handles}]]"


def _arguments(record: Sent) -> str:
    content = record.content
    given = {"key": content.key, "timestamp": content.timestamp, "partition": record.partition}
    named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if content.headers:
        named.append(f"headers={list(content.headers)!r}")
    return ", ".join([repr(content.value), *named])


@attrs.frozen
class Transact(Step):
    """Send records in a transaction, look for them before its end, and commit or abort it."""

    name: str
    client: str
    topic: str
    records: tuple[Sent, ...]
    number: int | None = None
    commits: bool = True

    @property
    def kind(self) -> str:
        return "Commit-step" if self.commits else "Abort-step"

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
            value_of(play.execute(Statement(f"step.send({_arguments(record)})", (handle,))), "atomic")
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


# consuming -------------------------------------------------------------------------------------------------


@attrs.frozen
class OpenConsumer(Step):
    """Open a consumer, without or with a group."""

    consumer: str
    client: str
    topics: tuple[str, ...]
    start: AnyPlace
    group: str | None = None
    lenient: bool = False
    partitions: tuple[int, ...] | None = None
    must_exist: bool = False

    @property
    def kind(self) -> str:
        return "OpenReader" if self.group is None else "OpenMember"

    def needs(self) -> Sequence[str]:
        return [*self.topics, *self.start.needs()]

    def applies(self, play: Play) -> bool:
        topics = play.world.topics
        if not super().applies(play) or self.consumer in play.world.consumers.open:
            return False
        if not all(topics.exists(topic) for topic in self.topics):
            return True
        start = self.start.model(play)
        try:
            places = play.world.consumers.places(self.topics, start, self.partitions, lenient=self.lenient)
        except AssertionError:  # a message of a deleted topic
            return False
        held = self.partitions is None or set(self.partitions) <= {log.log.partition for log in places}
        clear = all(len(each.points) == 1 for each in places.values())
        return held and (self.group is None or clear)

    def perform(self, play: Play) -> None:
        topics = self.topics[0] if len(self.topics) == 1 else f"[{', '.join(self.topics)}]"
        more = "" if self.partitions is None else f", partitions={list(self.partitions)}"
        if self.group is not None:
            play.name(self.group)
            more += f", group={self.group}{play.listeners(self.consumer)}"
        if self.must_exist:
            more += ", must_exist=True"
        code = f"{self.client}.consumer({topics}, start={self.start.code()}{more}{_missing(self.lenient)})"
        outcome = play.execute(Statement(code, (self.consumer,)))
        play.world.consumers.opened(
            self.consumer, self.topics, self.start.model(play), outcome,
            group=self.group, lenient=self.lenient, partitions=self.partitions, must_exist=self.must_exist,
        )  # fmt: skip
        play.settle()


@attrs.frozen
class OfConsumer(Step):
    """A call of an open consumer."""

    consumer: str

    def needs(self) -> Sequence[str]:
        return [self.consumer]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and self.consumer in play.world.consumers.open

    def member(self, play: Play) -> bool:
        """Return whether it has a group."""
        return play.world.consumers.open[self.consumer].group is not None


@attrs.frozen
class Close(OfConsumer):
    """Close a consumer."""

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.consumer}.close()"))
        play.world.consumers.closed(self.consumer, outcome)
        del play.names[self.consumer]


@attrs.frozen
class Receive(OfConsumer):
    """Receive a message. It waits if the model knows that one must come."""

    def perform(self, play: Play) -> None:
        play.settle()
        waits = play.world.consumers.must_come(self.consumer)
        name = play.next_received()
        code = f"{self.consumer}.receive({play.patience if waits else 0})"
        outcome = play.execute(Statement(code, (name,)))
        play.settle()
        play.world.consumers.received(self.consumer, outcome, waited=waits, now=play.now())
        if outcome.value is not None:
            play.note(self.consumer, [outcome.value], name)


@attrs.frozen
class ReceiveMany(OfConsumer):
    """Receive several messages."""

    most: int = 10

    def perform(self, play: Play) -> None:
        play.settle()
        waits = play.world.consumers.must_come(self.consumer)
        name = play.next_received()
        code = f"{self.consumer}.receive_many({self.most}, {play.patience if waits else 0})"
        outcome = play.execute(Statement(code, (name,)))
        play.settle()
        play.world.consumers.received_many(self.consumer, self.most, outcome, waited=waits, now=play.now())
        if outcome.value is not None:
            play.note(self.consumer, outcome.value, f"{name}[{{}}]")


@attrs.frozen
class Ack(OfConsumer):
    """Ack a message by its id, or all up to it."""

    message: str
    through: bool = False

    @property
    def kind(self) -> str:
        return "AckThrough" if self.through else "Ack"

    def needs(self) -> Sequence[str]:
        return [self.consumer, self.message]

    def perform(self, play: Play) -> None:
        wanted = play.names[self.message]
        message = play.hands.get((self.consumer, wanted), self.message)
        outcome = play.execute(Statement(f"{self.consumer}.{'ack_through' if self.through else 'ack'}({message})"))
        judge = play.world.consumers.acked_through if self.through else play.world.consumers.acked
        judge(self.consumer, wanted, outcome)
        play.settle()


@attrs.frozen
class Nack(OfConsumer):
    """Nack a message that the consumer was given."""

    message: str
    delay: float = 0

    def needs(self) -> Sequence[str]:
        return [self.consumer, self.message]

    def applies(self, play: Play) -> bool:
        return super().applies(play) and (self.consumer, play.names[self.message]) in play.hands

    def perform(self, play: Play) -> None:
        wanted = play.names[self.message]
        due = play.now() + self.delay
        outcome = play.execute(Statement(f"{self.consumer}.nack({play.hands[self.consumer, wanted]}, {self.delay})"))
        play.world.consumers.nacked(self.consumer, wanted, due, outcome)
        play.settle()


@attrs.frozen
class Commit(OfConsumer):
    """Commit."""

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.consumer}.commit()"))
        play.world.consumers.committed(self.consumer, outcome)
        play.settle()


@attrs.frozen
class Seek(OfConsumer):
    """Seek."""

    to: AnyPlace
    partition: int | None = None
    lenient: bool = False

    def needs(self) -> Sequence[str]:
        return [self.consumer, *self.to.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play):
            return False
        start = self.to.model(play)
        model = play.world.consumers.open[self.consumer]
        named = getattr(start, "log", None) or getattr(getattr(start, "id", None), "log", None)
        readings = [each for log, each in model.readings.items() if named in {None, log}]
        clear = all(len(each.log.places(start, lenient=self.lenient).points) < 2 for each in readings)
        return bool(model.readings) and (model.group is None or clear)

    def perform(self, play: Play) -> None:
        to, more = self.to.code(), ""
        if isinstance(self.to, NearMessage):
            to, more = self.to.message, ", inclusive=False" if self.to.after else ""
        if self.partition is not None and not isinstance(self.to, NearMessage | Place):
            more += f", partition={self.partition}"
        code = f"{self.consumer}.seek({to}{more}{_missing(self.lenient)})"
        outcome = play.execute(Statement(code))
        partition = None if isinstance(self.to, NearMessage | Place) else self.partition
        play.world.consumers.sought(self.consumer, self.to.model(play), partition, self.lenient, outcome)
        play.settle()


@attrs.frozen
class Pause(OfConsumer):
    """Pause or resume partitions; by default all."""

    partitions: tuple[int, ...] = ()
    pause: bool = True

    @property
    def kind(self) -> str:
        return "Pause" if self.pause else "Resume"

    def applies(self, play: Play) -> bool:
        return super().applies(play) and len(play.world.consumers.open[self.consumer].topics) == 1

    def perform(self, play: Play) -> None:
        numbers = ", ".join(map(str, self.partitions))
        outcome = play.execute(Statement(f"{self.consumer}.{'pause' if self.pause else 'resume'}({numbers})"))
        play.world.consumers.paused(self.consumer, self.partitions, outcome, pause=self.pause)
        play.settle()


@attrs.frozen
class Ask(OfConsumer):
    """Ask a consumer for its position, what its group has stored, or its late acks."""

    what: str

    @property
    def kind(self) -> str:
        return f"Ask-{self.what}"

    def applies(self, play: Play) -> bool:
        return super().applies(play) and len(play.world.consumers.open[self.consumer].topics) == 1

    def perform(self, play: Play) -> None:
        consumers = play.world.consumers
        if self.what == "late_acks":
            consumers.late_acks(self.consumer, play.execute(Statement(f"{self.consumer}.late_acks")))
        elif self.what == "position":
            consumers.positions(self.consumer, play.execute(Statement(f"{self.consumer}.position()")))
        else:
            consumers.stored(self.consumer, play.execute(Statement(f"{self.consumer}.committed()")))
        play.settle()


# queries and groups ----------------------------------------------------------------------------------------


@attrs.frozen
class Query(Step):
    """Ask for the watermarks, the bounds, or all messages of a topic."""

    client: str
    topic: str
    what: str

    @property
    def kind(self) -> str:
        return f"Query-{self.what}"

    def needs(self) -> Sequence[str]:
        return [self.topic]

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.{self.what}({self.topic})"))
        getattr(play.world.topics, self.what)(self.topic, outcome)


@attrs.frozen
class QueryAll(Step):
    """Ask for the watermarks of several topics at once."""

    client: str
    topics: tuple[str, ...]

    def needs(self) -> Sequence[str]:
        return self.topics

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"{self.client}.watermarks([{', '.join(self.topics)}])"))
        play.world.topics.watermarks_of_all(self.topics, outcome)


@attrs.frozen
class ListTopics(Step):
    """List the topics of this program."""

    client: str

    def perform(self, play: Play) -> None:
        run = play.name("t1").removesuffix(PLACES["t1"])
        outcome = play.execute(Statement(f"[each for each in {self.client}.topics() if each.startswith({run!r})]"))
        play.world.topics.listed(outcome)


@attrs.frozen
class Resolve(Step):
    """Resolve a start, and name the result."""

    name: str
    client: str
    topic: str
    start: AnyPlace
    partitions: tuple[int, ...] | None = None
    lenient: bool = False

    def needs(self) -> Sequence[str]:
        return [self.topic, *self.start.needs()]

    def perform(self, play: Play) -> None:
        more = "" if self.partitions is None else f", partitions={list(self.partitions)}"
        code = f"{self.client}.resolve({self.topic}, {self.start.code()}{more}{_missing(self.lenient)})"
        outcome = play.execute(Statement(code, (self.name,)))
        play.world.topics.resolved(self.topic, self.start.model(play), self.partitions, self.lenient, outcome)


@attrs.frozen
class OfGroup(Step):
    """A call about a group."""

    client: str
    group: str
    topic: str

    def needs(self) -> Sequence[str]:
        return [self.topic]


@attrs.frozen
class GroupQuery(OfGroup):
    """Ask for the positions or the lag of a group."""

    what: str

    @property
    def kind(self) -> str:
        return f"Query-{self.what}"

    def perform(self, play: Play) -> None:
        play.name(self.group)
        play.settle()
        outcome = play.execute(Statement(f"{self.client}.{self.what}({self.topic}, group={self.group})"))
        getattr(play.world.groups, self.what)(self.group, self.topic, outcome)


@attrs.frozen
class ListGroups(Step):
    """List the groups of a topic."""

    client: str
    topic: str

    def needs(self) -> Sequence[str]:
        return [self.topic]

    def perform(self, play: Play) -> None:
        outcome = play.execute(Statement(f"[each.name for each in {self.client}.groups({self.topic})]"))
        shorts: dict[str, str] = {play.names[name]: name for name in play.world.groups.stored}
        if outcome.error is None:
            listed: list[str] = outcome.value
            outcome = Outcome(sorted(shorts.get(each, each) for each in listed))
        play.world.groups.listed(self.topic, list(play.world.groups.stored), outcome)


@attrs.frozen
class ResetGroup(OfGroup):
    """Reset a group."""

    to: AnyPlace
    lenient: bool = False

    def needs(self) -> Sequence[str]:
        return [self.topic, *self.to.needs()]

    def applies(self, play: Play) -> bool:
        if not super().applies(play):
            return False
        start, topic = self.to.model(play), play.world.topics.current[self.topic]
        named = getattr(start, "log", None) or getattr(getattr(start, "id", None), "log", None)
        logs = [log for log in topic.logs if named in {None, log.log}]
        return topic.deleted or all(len(log.places(start, lenient=self.lenient).points) < 2 for log in logs)

    def perform(self, play: Play) -> None:
        play.name(self.group)
        code = f"{self.client}.reset_group({self.group}, {self.topic}, {self.to.code()}{_missing(self.lenient)})"
        outcome = play.execute(Statement(code))
        play.world.groups.reset(self.group, self.topic, self.to.model(play), self.lenient, outcome)


@attrs.frozen
class DeleteGroup(Step):
    """Delete a group."""

    client: str
    group: str

    def perform(self, play: Play) -> None:
        play.name(self.group)
        play.world.groups.deleted(self.group, play.execute(Statement(f"{self.client}.delete_group({self.group})")))
