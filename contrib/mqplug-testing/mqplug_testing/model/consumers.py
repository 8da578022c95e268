"""The consumers of a world: which messages they may get, and what their acks, seeks and pauses do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs

from mqplug import (
    EARLIEST,
    ConsumerBusy,
    GroupNotFound,
    InvalidMessageId,
    Log,
    Message,
    MessageId,
    NotAssigned,
    Position,
    PositionLost,
    Timeout,
    TopicNotFound,
)
from mqplug_testing.model.groups import Groups
from mqplug_testing.model.logs import AnyStart, LogModel, Places
from mqplug_testing.model.readings import Hand, Reading, Work
from mqplug_testing.model.rules import Outcome, check, refused, value_of
from mqplug_testing.model.topics import Topic, Topics, far_beyond, named_log


@attrs.define(eq=False)
class ConsumerModel:
    """One open consumer. ``topics`` are the program's names of what it reads."""

    name: str
    topics: tuple[str, ...]
    group: str | None
    lenient: bool
    readings: dict[Log, Reading] = attrs.field(factory=dict)
    auto_ack: bool = False
    letters: Topic | None = None  # where messages go after so many attempts
    attempts: int = 0
    expected: set[Log] = attrs.field(factory=set)  # the logs that a lone member gets
    seen: set[MessageId] = attrs.field(factory=set)  # all that it was ever given
    late: int = 0
    perhaps_late: int = 0  # more acks that may count as late: those of ack_through without effect


class Consumers:
    """All open consumers by name."""

    def __init__(self, topics: Topics, groups: Groups) -> None:
        self._topics = topics
        self._groups = groups
        self.open: dict[str, ConsumerModel] = {}

    # opening and closing -----------------------------------------------------------------------------------

    def places(
        self, topics: Sequence[str], start: AnyStart, partitions: Sequence[int] | None, *, lenient: bool
    ) -> dict[LogModel, Places]:
        """Return where a start leads in each log. If it names one log, the others begin at EARLIEST."""
        logs = [log for topic in topics for log in self._topics.current[topic].logs]
        logs = [log for log in logs if partitions is None or log.log.partition in partitions]
        named = named_log(start)
        return {log: log.places(start if named in {None, log.log} else EARLIEST, lenient=lenient) for log in logs}

    def opened(
        self,
        consumer: str,
        topics: Sequence[str],
        start: AnyStart,
        outcome: Outcome,
        *,
        group: str | None = None,
        lenient: bool = False,
        partitions: Sequence[int] | None = None,
        must_exist: bool = False,
        exclusive: bool = False,
    ) -> None:
        """Judge the opening of a consumer."""
        if any(not self._topics.exists(topic) for topic in topics):
            refused(outcome, "missing", TopicNotFound)
            return
        if must_exist and not any(
            self._groups.has_position(group or "", self._topics.current[each]) for each in topics
        ):
            # A start may name a partition of another topic.
            refused(
                outcome, "must-exist", GroupNotFound, InvalidMessageId, *([NotAssigned] if named_log(start) else [])
            )
            return
        if exclusive and self._groups.members.get(group or ""):
            refused(outcome, "exclusive", ConsumerBusy)
            return
        places = self.places(topics, start, partitions, lenient=lenient)
        named = named_log(start)
        if named is not None and named not in {log.log for log in places}:
            refused(outcome, "deleted", InvalidMessageId, PositionLost, NotAssigned)
            return
        if outcome.error is not None:
            self._check_refusal(outcome, start, places)
            return
        model = ConsumerModel(consumer, tuple(topics), group, lenient)
        if group is None:
            check(not any(each.lost for each in places.values()), "lost", "PositionLost", "success")
            model.readings = {
                log.log: Reading.at(log, start if named in {None, log.log} else EARLIEST, lenient=lenient)
                for log in places
            }
        else:
            self._groups.begin(group, places)
            self._groups.members.setdefault(group, set()).add(consumer)
            model.expected = {log.log for log in places}
        self.open[consumer] = model

    def _check_refusal(self, outcome: Outcome, start: AnyStart, places: Mapping[LogModel, Places]) -> None:
        if far_beyond(start, list(places)) and isinstance(outcome.error, InvalidMessageId):
            return
        lost = [log for log, each in places.items() if each.lost or each.may_be_lost]
        if not lost:
            value_of(outcome, "lost")
        lost[0].check_lost(outcome, "lost")

    def closed(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``close``, which stores acks."""
        value_of(outcome, "close")
        model = self.open.pop(consumer)
        if model.group is not None:
            self._groups.members[model.group].discard(consumer)
            for reading in model.readings.values():
                self._store(model, reading)

    # hand-overs --------------------------------------------------------------------------------------------

    def assigned(self, consumer: str, logs: Iterable[Log]) -> None:
        """Note the partitions that a member got."""
        model = self.open[consumer]
        group = model.group or ""
        for name in logs:
            holders = [other.name for other in self.open.values() if other.group == group and name in other.readings]
            reported = self._topics.able.assignment_events
            check(
                not holders or not reported,
                "one-member",
                f"{name!r} has no member",
                f"{holders} and {consumer} have it",
            )
            if (log := self._topics.of(name)) is not None:
                self._groups.begin(group, {log: Places(points=frozenset({log.low}))})
                states = self._groups.begins(group, log)
                by_entry = self._topics.able.ack_granularity != "message"
                model.readings[name] = Work.begun(
                    log, states, lenient=model.lenient, loose=not reported, by_entry=by_entry
                )

    def revoked(self, consumer: str, logs: Iterable[Log]) -> None:
        """Note the partitions that a member gave up. Their acks are stored."""
        model = self.open[consumer]
        for name in logs:
            if (reading := model.readings.pop(name, None)) is not None:
                self._store(model, reading)

    def _store(self, model: ConsumerModel, reading: Reading) -> None:
        if isinstance(reading, Work) and model.group is not None and not reading.log.deleted:
            self._groups.store(model.group, reading.log, *reading.snapshots())

    # receiving ---------------------------------------------------------------------------------------------

    def asked(self, consumer: str) -> None:
        """Note that a consumer asks for the next message. With ``auto_ack``, that acks what it has."""
        model = self.open[consumer]
        for work in model.readings.values() if model.auto_ack else ():
            if isinstance(work, Work):
                work.ack_all()
                self._may_store(model, work)

    def must_come(self, consumer: str) -> bool:
        """Return whether a receive that waits must end with a message or an error."""
        model = self.open[consumer]
        if self._hands_over(model):
            return False
        if any(reading.must_come() for reading in model.readings.values()):
            return True
        if model.group is None or len(self._groups.members[model.group]) > 1:
            return False
        for name in model.expected - model.readings.keys():
            log = self._topics.of(name)
            state = self._groups.latest(model.group, log) if log is not None else None
            if log is None or (state is not None and state.first_unacked(log) < log.end):
                return True  # the error of a deleted topic, or a message
        return False

    def _hands_over(self, model: ConsumerModel) -> bool:
        """Return whether a member may have to give up partitions, of which another member has none yet."""
        if model.group is None:
            return False
        members = [each for each in self.open.values() if each.group == model.group]
        share = math.ceil(len(model.expected) / len(members))
        return len(model.readings) > share and not all(each.readings for each in members)

    def received(self, consumer: str, outcome: Outcome, *, waited: bool, now: float) -> None:
        """Judge ``receive``."""
        if outcome.error is not None:
            self._check_receive_error(self.open[consumer], outcome)
        elif outcome.value is None:
            self._check_idle(consumer, outcome, waited=waited)
        else:
            self._take(self.open[consumer], outcome.value, _log_time(outcome.value), now)

    def received_many(self, consumer: str, most: int, outcome: Outcome, *, waited: bool, now: float) -> None:
        """Judge ``receive_many``."""
        if outcome.error is not None:
            self._check_receive_error(self.open[consumer], outcome)
            return
        batch = outcome.value
        if not len(batch):
            self._check_idle(consumer, outcome, waited=waited)
            return
        check(len(batch) <= most, "idle", f"at most {most} messages", f"{len(batch)} messages")
        for message, log_time in zip(batch, batch.log_times, strict=True):
            self._take(self.open[consumer], message, log_time, now)

    def _check_idle(self, consumer: str, outcome: Outcome, *, waited: bool) -> None:
        if waited and self.must_come(consumer):
            model = self.open[consumer]
            due = [each for each in model.readings.values() if each.must_come()]
            wanted = [reading.log.name(min(reading.may_come(math.inf), default=0)) for reading in due]
            rule = "ack" if model.group or not due else due[0].rule
            check(False, rule, " or ".join(wanted) or "a message", outcome)

    def _check_receive_error(self, model: ConsumerModel, outcome: Outcome) -> None:
        if self._reads_deleted(model):
            refused(outcome, "deleted", TopicNotFound, PositionLost)
            return
        lost = [reading for reading in model.readings.values() if reading.may_be_lost()]
        check(lost, "order", "a message or None", outcome)
        refused(outcome, "overtaken", PositionLost)
        of_error = getattr(outcome.error, "log", None)
        reading = next((each for each in lost if each.log.log is of_error), lost[0])
        reading.log.check_lost(outcome, "overtaken", since=min(reading.points))
        for each in lost:
            each.failed = True

    def _take(self, model: ConsumerModel, message: Message, log_time: int, now: float) -> None:
        wanted = message.id
        reading = model.readings.get(wanted.log)
        if reading is None:
            check(False, "one-member" if model.group else "order", "messages of held partitions", repr(message))
            return
        row = reading.log.row(wanted)
        if row is None:
            check(False, "id", f"an id that a send to {wanted.log!r} returned", repr(wanted))
            return
        reading.deliver(row, message, now)
        reading.log.stored[row].check_content(message, log_time)
        model.seen.add(wanted)

    # acks --------------------------------------------------------------------------------------------------

    def _work(self, consumer: str, wanted: MessageId) -> tuple[Work | None, int]:
        reading = self.open[consumer].readings.get(wanted.log)
        row = reading.log.row(wanted) if reading is not None else None
        return (reading, row) if isinstance(reading, Work) and row is not None else (None, 0)

    def _check_ack(self, model: ConsumerModel, wanted: MessageId, outcome: Outcome) -> bool:
        """Return whether a call that names this message is legal and succeeded."""
        if self._group(model, outcome) is None:
            return False
        if wanted in model.seen:
            if outcome.error is not None and wanted.log not in model.readings:
                refused(outcome, "late", InvalidMessageId, NotAssigned)
                return False
            value_of(outcome, "late")
            return True
        work, row = self._work(model.name, wanted)
        if work is not None and row < work.snapshot().first_unacked(work.log) and outcome.error is None:
            model.late += 1  # it was acked before this member began
            return False
        refused(outcome, "never-delivered", InvalidMessageId)
        return False

    def acked(self, consumer: str, wanted: MessageId, outcome: Outcome) -> None:
        """Judge ``ack``."""
        model = self.open[consumer]
        if self._check_ack(model, wanted, outcome):
            work, row = self._work(consumer, wanted)
            if work is None or not work.ack(row):
                model.late += 1
            else:
                model.perhaps_late += work.failed
            self._may_store(model, work)

    def acked_through(self, consumer: str, wanted: MessageId, outcome: Outcome) -> None:
        """Judge ``ack_through``."""
        model = self.open[consumer]
        if self._check_ack(model, wanted, outcome):
            work, row = self._work(consumer, wanted)
            if work is None or row in work.void or work.hands.get(row, Hand.NACKED) is Hand.NACKED:
                model.late += 1
                return
            before = dict(work.hands)
            work.ack_through(row)
            model.perhaps_late += before == work.hands or work.failed
            self._may_store(model, work)

    def nacked(self, consumer: str, wanted: MessageId, due: float, outcome: Outcome) -> None:
        """Judge ``nack``."""
        model = self.open[consumer]
        if self._check_ack(model, wanted, outcome):
            work, row = self._work(consumer, wanted)
            if work is None or not work.nack(row, due):
                model.late += 1
            else:
                model.perhaps_late += work.failed

    def _may_store(self, model: ConsumerModel, work: Work | None) -> None:
        if work is not None and model.group is not None:
            self._groups.may_store(model.group, work.log, work.snapshot())

    def committed(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``commit``."""
        model = self.open[consumer]
        if self._group(model, outcome) is None:
            return
        if self._is_gone(model, outcome):
            return
        value_of(outcome, "close")
        for reading in model.readings.values():
            self._store(model, reading)

    def step_ended(self, consumer: str, acked: Sequence[tuple[Work, int]], *, commits: bool) -> None:
        """Note that a transaction's commit stored its acks, or that an abort gave all messages in hand back."""
        model = self.open[consumer]
        for work, row in acked if commits else ():
            work.ack(row)
        for work in {work for work, _ in acked} if commits else ():
            self._store(model, work)
        for reading in () if commits else model.readings.values():
            if isinstance(reading, Work):
                reading.give_back()

    def _group(self, model: ConsumerModel, outcome: Outcome) -> str | None:
        """Return the group of a consumer. Without one, return None, and check that the call failed."""
        if model.group is None:
            check(outcome.error is not None, "no-trace", "an error", outcome)
        return model.group

    def _is_gone(self, model: ConsumerModel, outcome: Outcome) -> bool:
        """Return whether a call failed because a topic was deleted."""
        return self._reads_deleted(model) and isinstance(outcome.error, TopicNotFound)

    def _reads_deleted(self, model: ConsumerModel) -> bool:
        """Return whether one of its topics was deleted."""
        held = any(reading.log.deleted for reading in model.readings.values())
        return held or any(self._topics.of(name) is None for name in model.expected)

    # seeks and pauses --------------------------------------------------------------------------------------

    def sought(self, consumer: str, start: AnyStart, partition: int | None, lenient: bool, outcome: Outcome) -> None:
        """Judge ``seek``."""
        model = self.open[consumer]
        chosen = [each for name, each in model.readings.items() if partition in {None, name.partition}]
        if (named := named_log(start)) is not None:
            if named not in model.readings:
                refused(outcome, "not-held", NotAssigned, InvalidMessageId, PositionLost, Timeout)
                return
            chosen = [model.readings[named]]
        if not chosen:
            refused(outcome, "not-held", NotAssigned, Timeout, InvalidMessageId)
            return
        places = {reading: reading.log.places(start, lenient=lenient) for reading in chosen}
        if outcome.error is not None:
            if any(reading.log.deleted for reading in chosen):
                refused(outcome, "deleted", TopicNotFound, PositionLost)
                return
            self._check_refusal(outcome, start, {reading.log: each for reading, each in places.items()})
            for reading in chosen:
                reading.rule = "refused"
            return
        check(not any(each.lost for each in places.values()), "lost", "PositionLost", "success")
        for reading in chosen:
            reading.move(start, lenient=lenient)
            self._store(model, reading)

    def paused(self, consumer: str, partitions: Sequence[int], outcome: Outcome, *, pause: bool) -> None:
        """Judge ``pause`` and ``resume``."""
        model = self.open[consumer]
        held = {name.partition for name in model.readings}
        if not set(partitions) <= held:
            refused(outcome, "pause", NotAssigned)
            return
        if self._is_gone(model, outcome):
            return
        value_of(outcome, "pause")
        for name, reading in model.readings.items():
            if not partitions or name.partition in partitions:
                reading.paused = pause

    # queries -----------------------------------------------------------------------------------------------

    def positions(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``position``."""
        model = self.open[consumer]
        if self._is_gone(model, outcome):
            return
        found = value_of(outcome, "resolve")
        numbers = sorted(name.partition for name in model.readings)
        check(sorted(found) == numbers, "resolve", f"partitions {numbers}", sorted(found))
        for name, reading in model.readings.items():
            reading.log.check_position(found[name.partition], reading.position_places(), "order")

    def stored(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``committed``."""
        model = self.open[consumer]
        if (group := self._group(model, outcome)) is None:
            return
        if self._is_gone(model, outcome):
            return
        found: Mapping[int, Position | None] = value_of(outcome, "positions")
        held = sorted(name.partition for name in model.readings)
        check(set(held) <= set(found), "positions", f"partitions {held}", sorted(found))
        for name, reading in model.readings.items():
            if reading.log.deleted:
                continue
            states = self._groups.stored[group][reading.log]
            points = frozenset(
                point for state in states for point in range(state.point, state.first_unacked(reading.log) + 1)
            )
            reading.log.check_position(found[name.partition], Places(points=points), "positions")

    def late_acks(self, consumer: str, outcome: Outcome) -> None:
        """Judge ``late_acks``."""
        model = self.open[consumer]
        most = model.late + model.perhaps_late
        check(model.late <= value_of(outcome, "late") <= most, "late", f"{model.late} to {most}", outcome)


def _log_time(message: Message) -> int:
    return round(message.log_time.timestamp() * 1000)
