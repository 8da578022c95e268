"""Topics: create, describe, list, grow and trim them. Settings are checked before any I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mqplug._consume.start_positions import by_log
from mqplug._model.checks import Retention, retention_seconds, whole_number
from mqplug._model.errors import TopicExists, TopicNotFound, Unsupported
from mqplug._model.names import check_new_topic, check_topic
from mqplug.spi._actions import AddPartitions, AlterTopic, CreateTopic, TopicInfo

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._model.log import Log
    from mqplug._model.names import Matching
    from mqplug._model.position import Position
    from mqplug._plugins.backend import Backend
    from mqplug.spi._descriptor import Capabilities


RETENTION_ROUNDING_S = 60.0  # Pulsar counts retention in whole minutes, rounded up


class Topics:
    """The topics of one connection. Names are checked before any I/O."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def find(self, topic: str, deadline: Deadline) -> TopicInfo:
        """Describe a topic. Raises ``TopicNotFound`` if it is missing."""
        return self._backend.topic(check_topic(topic), deadline)

    def find_all(self, topics: Sequence[str], deadline: Deadline) -> dict[str, Sequence[Log]]:
        """Return the logs of each of these (checked) topics, with as few round trips as the backend allows."""
        names = list(dict.fromkeys(topics))
        found = self._backend.topics(names, deadline)
        return {name: info.logs for name, info in zip(names, found, strict=True)}

    def find_existing(self, topics: Sequence[str], deadline: Deadline) -> dict[str, Sequence[Log]]:
        """Return the logs of those of these (checked) topics that exist."""
        try:
            return self.find_all(topics, deadline)
        except TopicNotFound:
            found: dict[str, Sequence[Log]] = {}
            for name in topics:
                with suppress(TopicNotFound):
                    found[name] = self.find(name, deadline).logs
            return found

    def find_or_create(self, topic: str, create: bool, deadline: Deadline) -> TopicInfo:
        """Describe a topic. With ``create``, create it first if it is missing."""
        try:
            return self.find(topic, deadline)
        except TopicNotFound:
            if not create:
                raise
        check_new_topic(topic)
        with suppress(TopicExists):
            return self._backend.create_topic(CreateTopic(topic), deadline)
        return self.find(topic, deadline)

    def logs(
        self, topics: Sequence[str], partitions: Sequence[int] | None, create: bool, deadline: Deadline
    ) -> list[Log]:
        """Return the logs that a consumer of these (checked) topics reads: all, or the named partitions."""
        if not topics:
            raise ValueError("no topics: a consumer needs at least one")
        every = [log for topic in topics for log in self.find_or_create(topic, create, deadline).logs]
        return only(partitions, topics, every)

    def matching(self, pattern: Matching, deadline: Deadline) -> list[Log]:
        """Return the logs of all topics that match, except topics that are deleted during the call."""
        found = self.find_existing(self.names(deadline, pattern), deadline)
        return [log for logs in found.values() for log in logs]

    def create(self, wanted: CreateTopic, exist_ok: bool, deadline: Deadline) -> None:
        """Create a topic. With ``exist_ok``, accept an existing one with the same settings."""
        try:
            self._backend.create_topic(wanted, deadline)
        except TopicExists as error:
            if not exist_ok:
                raise
            self._check_same(wanted, deadline, error)

    def _check_same(self, wanted: CreateTopic, deadline: Deadline, error: TopicExists) -> None:
        if differences := _differences(wanted, self.find(wanted.topic, deadline)):
            raise TopicExists(
                f"the topic {wanted.topic!r} exists with {' and '.join(differences)}",
                topic=wanted.topic,
                fix="Pass the existing settings, or choose another name",
            ) from error

    def names(self, deadline: Deadline, pattern: Matching | None = None) -> list[str]:
        """Return the names of all topics except the backend's own, or of those that match."""
        if pattern is None:
            return sorted(self._backend.list_topics(deadline))
        return sorted(filter(pattern.matches, self._backend.list_topics(deadline, pattern.pattern)))

    def add_partitions(self, topic: str, total: int, deadline: Deadline) -> None:
        """Grow a topic to ``total`` partitions. Raises ``ValueError`` if it has that many already."""
        there = len(self.find(topic, deadline).logs)
        if total <= there:
            raise ValueError(f"topic {topic!r} has {there} partitions and can only grow, not to {total}")
        self._backend.add_partitions(AddPartitions(topic, total), deadline)

    def trim(self, topic: str, before: Mapping[int, Position], deadline: Deadline) -> None:
        """Remove the messages before these positions."""
        wanted = by_log(self._backend, before, self.find(topic, deadline).logs)
        if wanted:
            self._backend.trim(wanted, deadline)


def only(partitions: Sequence[int] | None, topics: Sequence[str], every: Sequence[Log]) -> list[Log]:
    """Return the logs of the named partitions, or all. Raises ``ValueError`` for a partition that no topic has."""
    wanted = {log.partition for log in every} if partitions is None else set(partitions)
    if missing := wanted - {log.partition for log in every}:
        raise ValueError(f"{topics[0]!r} has no partition {missing.pop()!r}: it has {len(every)}")
    return [log for log in every if log.partition in wanted]


def _differences(wanted: CreateTopic, there: TopicInfo) -> Collection[str]:
    """Return how an existing topic differs from the wanted one, in the settings that both know."""
    found = []
    if len(there.logs) != wanted.partitions:
        found.append(f"{len(there.logs)} partitions, not {wanted.partitions}")
    if not _as_long(wanted.retention, there.retention):
        found.append(f"a retention of {there.retention:g} s, not {wanted.retention:g} s")
    if None not in {wanted.retention_bytes, there.retention_bytes} and wanted.retention_bytes != there.retention_bytes:
        found.append(f"{there.retention_bytes} bytes retained, not {wanted.retention_bytes}")
    return found


def _as_long(wanted: float | None, there: float | None) -> bool:
    return wanted is None or there is None or wanted == there or 0 <= there - wanted < RETENTION_ROUNDING_S


def new_topic(
    topic: str,
    able: Capabilities,
    *,
    partitions: int,
    retention: Retention | None,
    retention_bytes: int | None,
    options: Mapping[str, Any] | None,
) -> CreateTopic:
    """Return the action that creates a topic. Raise unless its name and settings are legal here."""
    check_new_topic(topic, able.topic_name_max)
    check_partitions(partitions, able)
    seconds, size, own = _settings(able, retention, retention_bytes, options)
    return CreateTopic(topic, partitions, seconds, own, size)


def altered_topic(
    topic: str,
    able: Capabilities,
    *,
    retention: Retention | None,
    retention_bytes: int | None,
    options: Mapping[str, Any] | None,
) -> AlterTopic:
    """Return the action that changes a topic. Raise unless there are settings and all are legal here."""
    check_topic(topic)
    seconds, size, own = _settings(able, retention, retention_bytes, options)
    if seconds is None and size is None and not own:
        raise TypeError("nothing to alter: pass retention=, retention_bytes= or options=")
    return AlterTopic(topic, seconds, own, size)


def _settings(
    able: Capabilities, retention: Retention | None, size: int | None, options: Mapping[str, Any] | None
) -> tuple[float | None, int | None, dict[str, Any]]:
    """Return retention in seconds and in bytes, and the backend's own options."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping, not {type(options).__name__}")
    seconds = retention_seconds(retention)
    if size is not None:
        whole_number("retention_bytes", size, 0)
    if not able.retention and (seconds, size) != (None, None):
        raise Unsupported("retention")
    return seconds, size, dict(options or {})


def check_partitions(count: int, able: Capabilities) -> int:
    """Return the number of partitions. Raise unless this backend allows it."""
    whole_number("the number of partitions", count, 1, able.partitions_max)
    if count > 1 and not able.partitions:
        raise Unsupported("partitions", fix="Create the topic with one partition")
    return count
