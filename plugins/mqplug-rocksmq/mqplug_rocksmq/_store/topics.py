"""Topics of a store and the logs of their partitions: create, grow, change and delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import attrs

from mqplug import Corrupt, TopicExists, TopicNotFound
from mqplug_rocksmq._engine.engine import Engine
from mqplug_rocksmq._engine.log_state import LogState
from mqplug_rocksmq._engine.rocks import Changes
from mqplug_rocksmq._format.keys import (
    COUNTER,
    FREED,
    GROUP,
    HANDED_OUT,
    LOG,
    STEP_MARK,
    TIME,
    TOPIC,
    LogRecord,
    StoredPosition,
    after_prefix,
    count_value,
    group_key,
    group_of,
    json_value,
    log_key,
    log_of,
    log_value,
    position_value,
    range_value,
    read_count,
    read_json,
    read_log_value,
    topic_key,
)
from mqplug_rocksmq._format.page import Page
from mqplug_rocksmq._store.logs import drop_runs, end_of_run, last_ingested_run, logs_with_runs
from mqplug_rocksmq._store.offset_leases import new_log_record, skip_leased_offsets

T = TypeVar("T")
AddChanges = Callable[[Changes], None]
"""A function that adds to a set of changes, which is applied atomically."""
WEEK_MS = 7 * 24 * 3600 * 1000


def no_changes(_: Changes) -> None:
    """Add no changes."""


@attrs.frozen
class TopicRetention:
    """The age and size that a partition may reach; None is no limit."""

    milliseconds: int | None = WEEK_MS
    size: int | None = None


@attrs.frozen
class Topic:
    """A topic: its log numbers by partition, and its retention."""

    name: str
    logs: tuple[int, ...]
    retention: TopicRetention = TopicRetention()

    @property
    def value(self) -> bytes:
        """The stored form of the topic."""
        kept = {"milliseconds": self.retention.milliseconds, "size": self.retention.size}
        return json_value({"logs": self.logs, "retention": kept})

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Topic:
        """Return the topic from its key and stored value."""
        stored = read_json(value)
        return cls(key[len(TOPIC) :].decode(), tuple(stored["logs"]), TopicRetention(**stored["retention"]))


class TopicTable:
    """The topics and logs of a store. Changes are safe when a method returns."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._topics = {topic.name: topic for topic in self._stored()}
        self._logs = {log.number: log for log in self._open_logs()}
        engine.reload_memory = self._reload
        if engine.host_died:
            self._safely(lambda changes: skip_leased_offsets(changes, self._logs.values()), None)

    def _stored(self) -> Iterator[Topic]:
        for key, value in self._engine.pages.scan(TOPIC):
            yield Topic.read(key, value)

    def _records(self) -> dict[int, LogRecord]:
        return {log_of(key): read_log_value(value) for key, value in self._engine.pages.scan(LOG)}

    def _open_logs(self) -> Iterator[LogState]:
        records, with_runs = self._records(), set(logs_with_runs(self._engine.pages))
        for topic in self._topics.values():
            for partition, number in enumerate(topic.logs):
                log = LogState(number, topic.name, partition, records[number])
                log.has_ingested_runs = number in with_runs
                self._compare(log)
                yield log

    def _reload(self) -> None:
        """Reset memory to the stored state, because a change failed."""
        known = self._logs
        self._topics = {topic.name: topic for topic in self._stored()}
        self._logs = {fresh.number: known.get(fresh.number, fresh) for fresh in self._open_logs()}
        for number, record in self._records().items():
            if number in known and number in self._logs:
                known[number].go_back(record)

    def _safely(self, plan: Callable[[Changes], T], timeout: float | None) -> T:
        """Apply changes and sync them in every mode: leases must be on disk before they are used."""
        result = self._engine.change(plan, timeout)
        self._engine.durability.sync()
        self._engine.check()
        return result

    def _compare(self, log: LogState) -> None:
        pages = self._engine.pages
        last = pages.last(log.number)
        end = last[0] + Page(last[1]).count if last else log.low
        if log.has_ingested_runs and (run := last_ingested_run(pages, log.number)):
            end = max(end, end_of_run(pages, run))
        if end != log.end:
            raise Corrupt(
                f"partition {log.partition} ends at {end} but was recorded to end at {log.end}",
                fix="Restore the store from a backup",
                backend="rocksmq",
                topic=log.topic,
            )

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._topics)

    def get(self, name: str) -> Topic:
        """Return a topic, or raise ``TopicNotFound``."""
        try:
            return self._topics[name]
        except KeyError:
            raise TopicNotFound(
                f"there is no topic {name!r} in this store", fix="Create it first", backend="rocksmq", topic=name
            ) from None

    def log(self, number: int) -> LogState:
        """Return a log, or raise ``TopicNotFound`` if it was deleted."""
        log = self._logs.get(number)
        if log is not None and not log.deleted:
            return log
        raise TopicNotFound("the topic was deleted", fix="Create it again", backend="rocksmq")

    def logs(self) -> list[LogState]:
        """Return all logs."""
        return [log for log in self._logs.values() if not log.deleted]

    def find(self, number: int) -> LogState | None:
        """Return a log, or None if it was deleted."""
        log = self._logs.get(number)
        return None if log is None or log.deleted else log

    def create(
        self,
        name: str,
        partitions: int,
        retention: TopicRetention,
        timeout: float | None,
        also: AddChanges = no_changes,
    ) -> Topic:
        """Create a topic, or raise ``TopicExists``."""

        def plan(changes: Changes) -> Topic:
            if name in self._topics:
                raise TopicExists(f"topic {name!r} already exists", backend="rocksmq", topic=name)
            also(changes)
            return self._grow(changes, Topic(name, (), retention), partitions)

        return self._safely(plan, timeout)

    def grow(self, name: str, partitions: int, timeout: float | None, also: AddChanges = no_changes) -> Topic:
        """Grow a topic to *partitions* partitions. Its groups read the new ones from their beginning."""

        def plan(changes: Changes) -> Topic:
            topic = self.get(name)
            there = len(topic.logs)
            if partitions <= there:
                raise ValueError(f"topic {name!r} already has {there} partitions; {partitions} is not more")
            also(changes)
            grown = self._grow(changes, topic, partitions)
            for group in self._groups_of(topic):
                for log in grown.logs[there:]:
                    changes.put(group_key(log, group), position_value(StoredPosition(0)))
            return grown

        return self._safely(plan, timeout)

    def retain(
        self, name: str, limits: Mapping[str, int | None], timeout: float | None, also: AddChanges = no_changes
    ) -> Topic:
        """Change the given limits of a topic's retention, ``milliseconds`` or ``size``, and keep the others."""

        def plan(changes: Changes) -> Topic:
            topic = self.get(name)
            also(changes)
            return self._put(changes, attrs.evolve(topic, retention=attrs.evolve(topic.retention, **limits)))

        return self._safely(plan, timeout)

    def delete(self, name: str, timeout: float | None, also: AddChanges = no_changes) -> None:
        """Delete a topic with its messages and the positions of its groups."""

        def plan(changes: Changes) -> list[LogState]:
            topic = self.get(name)
            also(changes)
            changes.delete_copied(topic_key(name))
            del self._topics[name]
            return [self._delete_log(changes, self._logs[number]) for number in topic.logs]

        for log in self._engine.change(plan, timeout):
            self._logs.pop(log.number, None)
            log.wake()

    def reserve(self, timeout: float | None) -> int:
        """Return a new number for a log or segment. Numbers are never reused."""

        def plan(changes: Changes) -> int:
            number = read_count(self._engine.pages.get(COUNTER))
            changes.put(COUNTER, count_value(number + 1))
            return number

        return self._safely(plan, timeout)

    def _groups_of(self, topic: Topic) -> set[str]:
        keys = [key for log in topic.logs for key, _ in self._engine.pages.scan(log_key(log, GROUP))]
        return {group_of(key) for key in keys}

    def _grow(self, changes: Changes, topic: Topic, partitions: int) -> Topic:
        number = read_count(self._engine.pages.get(COUNTER))
        added = range(number, number + partitions - len(topic.logs))
        for partition, log in enumerate(added, len(topic.logs)):
            record = new_log_record()
            changes.put(log_key(log), log_value(record))
            self._logs[log] = LogState(log, topic.name, partition, record)
        changes.put(COUNTER, count_value(added.stop))
        return self._put(changes, attrs.evolve(topic, logs=(*topic.logs, *added)))

    def _put(self, changes: Changes, topic: Topic) -> Topic:
        changes.put_copied(topic_key(topic.name), topic.value)
        self._topics[topic.name] = topic
        return topic

    def _delete_log(self, changes: Changes, log: LogState) -> LogState:
        log.deleted = True
        changes.delete(log_key(log.number))
        for kind in (TIME, GROUP, HANDED_OUT, STEP_MARK):
            prefix = log_key(log.number, kind)
            changes.delete_range(prefix, after_prefix(prefix))
        if log.has_ingested_runs:
            drop_runs(changes, self._engine.pages, log.number, log.end)
        if log.end:
            changes.drop_pages(log.number, 0, log.end)
            changes.put(log_key(log.number, FREED), range_value(0, log.end))
        return log
