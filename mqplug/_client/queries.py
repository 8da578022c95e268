"""Queries about stored messages: watermarks, bounds, lag, and the positions of starts. They move nothing.

Arithmetic with positions needs no I/O: the backend advances a position, or counts between two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mqplug._client.topics import only
from mqplug._consume.start_positions import check_place, refuse_lost, resolve, retained
from mqplug._model.errors import InvalidMessageId
from mqplug._model.ids import MessageId
from mqplug._model.position import After, Before, Bounds, Position, Start, Watermarks

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._client.groups import Groups
    from mqplug._client.topics import Topics
    from mqplug._model.log import Log
    from mqplug._plugins.backend import Backend


class Queries:
    """Queries for many topics at once, with as few round trips as the backend allows."""

    def __init__(self, backend: Backend, topics: Topics, groups: Groups) -> None:
        self._backend = backend
        self._topics = topics
        self._groups = groups

    def watermarks(self, topics: Sequence[str], deadline: Deadline) -> dict[str, dict[int, Watermarks]]:
        """Return the watermarks of each partition of each topic."""
        logs = self._topics.find_all(topics, deadline)
        marks = self._marks(logs, None, deadline)
        return {topic: {log.partition: marks[log] for log in logs[topic]} for topic in topics}

    def bounds(self, topic: str, deadline: Deadline) -> dict[int, Bounds]:
        """Return the first and last id of each partition."""
        logs = self._topics.find(topic, deadline).logs
        found = self._backend.bounds(logs, deadline)
        return {log.partition: found[log] for log in logs}

    def lag(self, topics: Sequence[str], group: str, deadline: Deadline) -> dict[str, dict[int, int]]:
        """Return the number of messages that the group has yet to read, in each partition of each topic."""
        logs = self._topics.find_all(topics, deadline)
        stored = self._groups.stored(group, logs, deadline)
        since = {log: place.position for log, place in stored.items()}
        marks = self._marks(logs, since, deadline)
        return {topic: {log.partition: _behind(since.get(log), marks[log]) for log in logs[topic]} for topic in topics}

    def resolve(
        self,
        topics: Sequence[str],
        start: Start,
        partitions: Sequence[int] | None,
        *,
        lenient: bool,
        deadline: Deadline,
    ) -> dict[str, dict[int, Position]]:
        """Return the position that a start resolves to in each partition of each topic, or in the named partitions."""
        if not topics:
            return {}
        logs = self._topics.find_all(topics, deadline)
        every = [log for each in logs.values() for log in each]
        wanted = only(partitions, topics, every)
        if isinstance(start, Before | After | Position):
            found = self._named(start, every, wanted, lenient, deadline)
        else:
            found = resolve(self._backend, start, wanted, deadline)
        return {topic: {log.partition: found[log] for log in logs[topic] if log in found} for topic in topics}

    def _named(
        self,
        start: Before | After | Position,
        every: Sequence[Log],
        wanted: Sequence[Log],
        lenient: bool,
        deadline: Deadline,
    ) -> dict[Log, Position]:
        """Return the position of a start that names one partition, which must be one of the wanted ones."""
        found = resolve(self._backend, start, every, deadline, whole=True)
        for log in found.keys() - set(wanted):
            raise ValueError(f"the start {start!r} is of partition {log.partition}, which partitions= does not name")
        if lenient:
            return retained(self._backend, found, deadline)
        refuse_lost(self._backend, found, deadline)
        return found

    def _marks(
        self, logs: Mapping[str, Sequence[Log]], since: Mapping[Log, Position] | None, deadline: Deadline
    ) -> Mapping[Log, Watermarks]:
        every = [log for each in logs.values() for log in each]
        return self._backend.watermarks(every, since, deadline)


def _behind(position: Position | None, marks: Watermarks) -> int:
    """Estimate the lag, which is 0 if and only if there is nothing more to read."""
    if marks.low == marks.high or (position is not None and position >= marks.high):
        return 0
    return marks.count if marks.exact else max(marks.count, 1)


def advance(backend: Backend, position: Position, count: int) -> Position:
    """Return the position ``count`` messages further along. The arguments were checked."""
    _check_owned(backend, position)
    return backend.connection.advance(position, count)


def distance(backend: Backend, start: Position, until: Position) -> int:
    """Return the most messages that lie between two positions. The arguments were checked."""
    forward = start < until
    _check_owned(backend, start)
    check_place(backend, until)
    return backend.connection.distance(start, until) if forward else 0


def check_position(name: str, value: object) -> None:
    """Raise ``TypeError`` unless this is a position."""
    if isinstance(value, Position):
        return
    hint = ": use resolve(topic, before(id)) or resolve(topic, after(id))" if isinstance(value, MessageId) else ""
    hint = ": Position.parse(text) reads the text of a position" if isinstance(value, str) else hint
    raise TypeError(f"{name} must be a Position, not {type(value).__name__}{hint}")


def _check_owned(backend: Backend, position: Position) -> None:
    """Raise ``InvalidMessageId`` unless the position is one of the connection's backend and cluster."""
    if not backend.connection.owns(position.log):
        raise InvalidMessageId(
            f"{position!r} belongs to another backend or cluster",
            topic=position.log.topic,
            fix="Use positions from a client of the same cluster",
        )
    check_place(backend, position)
