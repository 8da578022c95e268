"""The topics of a world: what was sent to them, and what queries about them may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mqplug import InvalidMessageId, Log, MessageId, Position, PositionLost, SendFailed, TopicExists, TopicNotFound
from mqplug.spi import Capabilities
from mqplug_testing.model.logs import CLOCK_SLACK_MS, AnyStart, Content, LogModel, LogTimes, Near, Stored
from mqplug_testing.model.rules import Outcome, check, refused, value_of

OFFSET_LIMIT = 2**63 - 2  # where a backend whose offsets have 64 bits may end


@attrs.define(eq=False)
class Topic:
    """One incarnation of a topic."""

    name: str
    logs: list[LogModel]
    keys: dict[bytes, int] = attrs.field(factory=dict)
    grown: bool = False
    deleted: bool = False
    recreated: bool = False

    def log_of(self, log: Log) -> LogModel | None:
        """Return the model of a log, or None if it is not of this incarnation."""
        return next((each for each in self.logs if each.log is log), None)


@attrs.frozen
class Sent:
    """A record that was sent, under the name that the program gives its id."""

    name: str
    content: Content
    partition: int | None = None


class Topics:
    """All topics by the names that the program gives them, and all messages."""

    def __init__(self, able: Capabilities, log_times: LogTimes) -> None:
        self.able = able
        self.log_times = log_times
        self.current: dict[str, Topic] = {}
        self.messages: dict[str, tuple[Topic, LogModel, Stored]] = {}
        self.names: dict[MessageId, str] = {}
        self.producers: dict[str, Topic] = {}
        self._logs_seen: dict[Log, LogModel] = {}

    def of(self, log: Log) -> LogModel | None:
        """Return the model of a log of an existing topic."""
        found = (topic.log_of(log) for topic in self.current.values() if not topic.deleted)
        return next(filter(None, found), None)

    def exists(self, topic: str) -> bool:
        """Return whether a topic exists now."""
        return topic in self.current and not self.current[topic].deleted

    def _existing(self, topic: str, outcome: Outcome) -> Topic | None:
        """Return a topic, or None after a check that the call reported it as missing."""
        if self.exists(topic):
            return self.current[topic]
        refused(outcome, "missing", TopicNotFound)
        return None

    # administration ----------------------------------------------------------------------------------------

    def created(self, topic: str, partitions: int, outcome: Outcome, described: Outcome) -> None:
        """Judge ``create_topic``, and ``partitions`` after it."""
        if self.exists(topic):
            refused(outcome, "exists", TopicExists)
            self.described(topic, described)
            return
        value_of(outcome, "exists")
        logs = self._logs(described, partitions)
        if topic in self.current and self.current[topic].logs[0].log.incarnation:
            old = self.current[topic].logs
            check(not {each.log for each in old} & set(logs), "deleted", "logs of a new incarnation", logs)
        name = logs[0].topic
        self.messages = {name: each for name, each in self.messages.items() if each[1].log not in logs}
        self.current[topic] = Topic(name, self._models(logs), recreated=topic in self.current)

    def described(self, topic: str, outcome: Outcome) -> None:
        """Judge ``partitions``."""
        if (there := self._existing(topic, outcome)) is not None:
            logs = value_of(outcome, "describe")
            check(logs == [each.log for each in there.logs], "describe", [each.log for each in there.logs], logs)

    def listed(self, outcome: Outcome) -> None:
        """Judge the names that ``topics`` lists, of this program's topics."""
        wanted = sorted(topic.name for topic in self.current.values() if not topic.deleted)
        seen = value_of(outcome, "topics")
        check(seen == wanted, "topics", wanted, seen)

    def grown(self, topic: str, total: int, outcome: Outcome, described: Outcome) -> Sequence[LogModel]:
        """Judge ``add_partitions``, and ``partitions`` after it. Return the new logs."""
        there = self._existing(topic, outcome)
        if there is None:
            return []
        if total <= len(there.logs):
            refused(outcome, "add-partitions", ValueError)
            self.described(topic, described)
            return []
        value_of(outcome, "add-partitions")
        logs = self._logs(described, total)
        before = [each.log for each in there.logs]
        check(logs[: len(before)] == before, "add-partitions", before, logs)
        added = self._models(logs[len(before) :])
        there.logs += added
        there.grown = True
        return added

    def _logs(self, described: Outcome, count: int) -> list[Log]:
        logs = value_of(described, "describe")
        right = [each.partition for each in logs] == list(range(count))
        check(right, "describe", f"{count} partitions", logs)
        return list(logs)

    def _models(self, logs: Sequence[Log]) -> list[LogModel]:
        models = [LogModel(log) for log in logs]
        self._logs_seen |= zip(logs, models, strict=True)
        return models

    def deleted(self, topic: str, outcome: Outcome) -> None:
        """Judge ``delete_topic``."""
        if (there := self._existing(topic, outcome)) is not None:
            value_of(outcome, "missing")
            there.deleted = True
            for log in there.logs:
                log.deleted = True

    def trimmed(self, topic: str, before: Mapping[int, Position], outcome: Outcome, marks: Outcome) -> None:
        """Judge ``trim``, and ``watermarks`` after it. It may refuse a position beyond the end."""
        there = self._existing(topic, outcome)
        if there is None:
            return
        if any(there.log_of(position.log) is None for position in before.values()):
            refused(outcome, "deleted", InvalidMessageId, PositionLost)
        elif outcome.error is not None:
            logs = {each.log.partition: each for each in there.logs}
            far = any(logs[number].point(position) == logs[number].end for number, position in before.items())
            check(far, "trim", "success", outcome)
            refused(outcome, "trim", InvalidMessageId)
        else:
            for number, position in before.items():
                log = there.logs[number]
                log.low = max(log.low, log.point(position))
        self.watermarks(topic, marks, rule="trim")

    # sending -----------------------------------------------------------------------------------------------

    def sent(
        self, topic: str, records: Sequence[Sent], outcome: Outcome, between: tuple[int, int], *, producer: str
    ) -> None:
        """Judge sends whose ids are the outcome. They were made between these times, in milliseconds.

        A producer that was opened before its topic was deleted may fail, or send to the new one.
        """
        if not self.exists(topic):
            refused(outcome, "missing", TopicNotFound, SendFailed)
            return
        there = self.current[topic]
        if self.producers[producer] is not there and outcome.error is not None:
            refused(outcome, "missing", TopicNotFound, SendFailed, ValueError)
            results = getattr(outcome.error, "results", [])
            stored = [(each, found) for each, found in zip(records, results, strict=False) if is_id(found)]
            records, outcome = [each for each, _ in stored], Outcome([found for _, found in stored])
        if any(each.partition is not None and each.partition >= len(there.logs) for each in records):
            if not there.grown:  # another client may not know the new partitions yet
                refused(outcome, "partition", ValueError)
            if outcome.error is not None:
                return
        self._sent(there, records, value_of(outcome, "id"), between)

    def committed(
        self,
        topic: str,
        records: Sequence[Sent],
        ids: Sequence[MessageId],
        between: tuple[int, int],
        order: str = "send-order",
    ) -> None:
        """Judge the ids of the records that a committed step or an ingest stored."""
        self._sent(self.current[topic], records, ids, between, single=True, order=order)

    def buried(self, there: Topic, record: Sent, letter: MessageId, between: tuple[int, int]) -> None:
        """Judge the id of a dead letter."""
        self._sent(there, [record], [letter], between)

    def _sent(
        self,
        there: Topic,
        records: Sequence[Sent],
        ids: Sequence[MessageId],
        between: tuple[int, int],
        *,
        single: bool = False,
        order: str = "send-order",
    ) -> None:
        check(len(ids) == len(records), "id", f"{len(records)} ids", ids)
        sticky: set[int] = set()
        for record, each in zip(records, ids, strict=True):
            log = there.log_of(each.log)
            if log is None:
                check(False, "id", f"an id of {there.name}", repr(each))
                continue
            self._check_partition(there, record, log.log.partition, set() if single else sticky)
            self._store(there, log, record, each, between, order)

    def _check_partition(self, topic: Topic, record: Sent, partition: int, sticky: set[int]) -> None:
        key = record.content.key
        if record.partition is not None:
            check(partition == record.partition, "partition", record.partition, partition)
        elif key is not None and not (topic.grown or topic.recreated):  # a producer may know other partitions
            wanted = topic.keys.setdefault(key, partition)
            check(partition == wanted, "same-key", f"partition {wanted} for {key!r}", partition)
        elif key is None and not (topic.grown or topic.recreated):
            sticky.add(partition)
            check(len(sticky) == 1, "sticky", "one partition", sorted(sticky))

    def _store(
        self, topic: Topic, log: LogModel, record: Sent, sent: MessageId, between: tuple[int, int], order: str
    ) -> None:
        check(sent not in self.names, "deleted", "an id that no other message has or had", repr(sent))
        began, ended = between
        times = (began - CLOCK_SLACK_MS, ended + CLOCK_SLACK_MS)
        stored = Stored(sent, record.content, times, self.log_times, self.able.timestamps_producer)
        log.store(stored, order)
        self.messages[record.name] = (topic, log, stored)
        self.names[sent] = record.name

    def aborted(self, topic: str) -> None:
        """Note that a step was aborted, of which messages may be left where offsets are counted as messages."""
        for log in self.current[topic].logs:
            log.hides = not self.able.count_exact

    # queries -----------------------------------------------------------------------------------------------

    def watermarks(self, topic: str, outcome: Outcome, rule: str = "high") -> None:
        """Judge ``watermarks``."""
        there = self._existing(topic, outcome)
        if there is None:
            return
        found = value_of(outcome, "queries")
        check(list(found) == [each.log.partition for each in there.logs], "queries", "each partition", list(found))
        for log, marks in zip(there.logs, found.values(), strict=True):
            self._check_marks(log, marks, rule)

    def watermarks_of_all(self, topics: Sequence[str], outcome: Outcome) -> None:
        """Judge ``watermarks`` of several topics at once."""
        if not all(self.exists(topic) for topic in topics):
            refused(outcome, "missing", TopicNotFound)
            return
        found = value_of(outcome, "queries")
        for topic in topics:
            self.watermarks(topic, Outcome(found[self.current[topic].name]))

    def _check_marks(self, log: LogModel, marks: Any, rule: str) -> None:
        low, high = marks.low, marks.high
        low_rule = "trim" if log.low else rule
        check(low.log is log.log and log.point(low) == log.low, low_rule, f"low before {log.name(log.low)}", repr(low))
        check(high.log is log.log and log.point(high) == log.end, "high", f"high at {log.name(log.end)}", repr(high))
        for before, now, name in ((log.low_position, low, "low"), (log.high_position, high, "high")):
            check(before is None or now >= before, rule, f"{name} not before {before!r}", repr(now))
        log.low_position, log.high_position = low, high
        left = log.end - log.low
        exact = self.able.count_exact or not self.able.transactions  # else what an aborted step leaves has offsets
        no_gap = log.low == 0 or high.coordinates == (log.stored[-1].id.coordinates[0] + 1,)
        if left or (exact and no_gap):
            wanted = "low == high" if left == 0 else "low < high"
            check((low == high) == (left == 0), "empty", wanted, f"{low!r}, {high!r}")
        right = marks.count == left if marks.exact else marks.count > 0 or left == 0
        check(right, "count", f"a count of {left}", f"{marks.count}, exact={marks.exact}")
        check(not self.able.count_exact or marks.exact, "count", "exact=True", marks.exact)

    def bounds(self, topic: str, outcome: Outcome) -> None:
        """Judge ``bounds``."""
        there = self._existing(topic, outcome)
        if there is None:
            return
        found = value_of(outcome, "queries")
        for log in there.logs:
            ids = [each.id for each in log.stored[log.low :]]
            wanted = (ids[0], ids[-1]) if ids else (None, None)
            seen = (found[log.log.partition].first_id, found[log.log.partition].last_id)
            check(seen == wanted, "bounds" if ids else "empty", wanted, seen)

    def resolved(
        self, topic: str, start: AnyStart, partitions: Sequence[int] | None, lenient: bool, outcome: Outcome
    ) -> None:
        """Judge ``resolve``."""
        there = self._existing(topic, outcome)
        if there is None:
            return
        if partitions is not None and not set(partitions) <= {each.log.partition for each in there.logs}:
            refused(outcome, "resolve", ValueError, InvalidMessageId)
            return
        logs = [each for each in there.logs if partitions is None or each.log.partition in partitions]
        if (named := named_log(start)) is not None:
            if (log := there.log_of(named)) is None:
                refused(outcome, "deleted", InvalidMessageId, PositionLost)
                return
            if log not in logs:
                refused(outcome, "resolve", ValueError, *([InvalidMessageId] if far_beyond(start, [log]) else []))
                return
            logs = [log]
        if outcome.error is not None and self._refuses(logs, start, lenient, outcome):
            return
        found = value_of(outcome, "resolve")
        numbers = [each.log.partition for each in logs]
        check(sorted(found) == numbers, "resolve", f"partitions {numbers}", sorted(found))
        for log in logs:
            places = log.places(start, lenient=lenient)
            check(not places.lost, "resolve-lost", "PositionLost", found)
            log.check_position(found[log.log.partition], places, "resolve")

    def advanced(self, start: AnyStart, count: int, end: object, distance: Outcome) -> None:
        """Judge ``advance``, and ``distance`` of its result."""
        assert isinstance(start, Position)
        further = count > 0 and start.coordinates[0] < OFFSET_LIMIT
        right = isinstance(end, Position) and end.log is start.log and (end > start if further else end >= start)
        check(right, "advance", f"a position {count} messages after {start!r}", repr(end))
        assert isinstance(end, Position)
        log = self._any(start.log)
        between = log.point(end) - log.point(start)
        check(between <= count, "never-more", f"at most {count} messages before {end!r}", between)
        if log.is_dense and len(start.coordinates) == 1:
            right = end.coordinates == (start.coordinates[0] + count,) or end.coordinates[0] >= OFFSET_LIMIT
            check(right, "exact", f"{count} after {start!r}", repr(end))
            self.distance(start, end, distance)

    def not_advanced(self, start: AnyStart, outcome: Outcome) -> None:
        """Judge an error of ``advance``: a position so far away is impossible on some backends."""
        assert isinstance(start, Position)
        log = self._any(start.log)
        far = log.high_position is None or start > log.high_position
        check(far or log.deleted, "advance", "a position", outcome)
        refused(outcome, "advance", InvalidMessageId)

    def distance(self, start: AnyStart, end: AnyStart, outcome: Outcome) -> None:
        """Judge ``distance``."""
        assert isinstance(start, Position)
        assert isinstance(end, Position)
        if start.log is not end.log:
            refused(outcome, "advance", TypeError)
            return
        log = self._any(start.log)
        if outcome.error is not None:
            self.not_advanced(max(start, end), outcome)
            return
        between = log.point(end) - log.point(start)
        check(outcome.value >= between, "never-more", f"at least {between}", outcome)
        if log.is_dense and len(start.coordinates) == 1:
            wanted = max(0, end.coordinates[0] - start.coordinates[0])
            check(outcome.value == wanted, "exact", wanted, outcome)

    def _any(self, log: Log) -> LogModel:
        """Return the model of a log, even of a deleted topic."""
        return self._logs_seen[log]

    def _refuses(self, logs: Sequence[LogModel], start: AnyStart, lenient: bool, outcome: Outcome) -> bool:
        """Return whether an error is a legal refusal."""
        places = {log: log.places(start, lenient=lenient) for log in logs}
        if far_beyond(start, logs) and isinstance(outcome.error, InvalidMessageId):
            return True
        lost = [log for log, each in places.items() if each.lost or each.may_be_lost]
        if lost:
            lost[0].check_lost(outcome, "resolve-lost")
        return bool(lost)


def is_id(result: object) -> bool:
    """Return whether a result of a send is the id of a stored message."""
    return isinstance(result, MessageId)


def named_log(start: AnyStart) -> Log | None:
    """Return the log to which a start belongs, if it names one."""
    match start:
        case Near(wanted):
            return wanted.log
        case Position():
            return start.log
    return None


def far_beyond(start: AnyStart, logs: Sequence[LogModel]) -> bool:
    """Return whether a start is a position beyond the end, which a backend may refuse as impossible."""
    if not isinstance(start, Position):
        return False
    (log,) = (each for each in logs if each.log is start.log)
    return log.point(start) == log.end and (log.high_position is None or start > log.high_position)
