"""Fetches the messages of the partitions that a reader or a group member holds, except for paused ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Thread
from typing import Generic, TypeVar

from confluent_kafka import KafkaError

from mqplug import Batch, Error, Log, NotAssigned, Position, PositionLost
from mqplug.spi import ListColumns
from mqplug_kafka._admin.log_offsets import LOG_END, LOG_START, look_up
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import REMOVED_CODES, ended, typed_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._consume.message_source import NOTHING, Fetched, MessageSource, Name, PartitionError, Rows
from mqplug_kafka._consume.topic_watch import TopicWatch

S = TypeVar("S", bound=MessageSource)

END_CHECK_S = 0.5  # between two checks whether the log has reached a position beyond its end
LOOKUP_TIMEOUT_S = 5.0

_IGNORED_CODES = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._WAIT_COORD,
}
"""Events from which the client recovers by itself, or that a callback reports in more detail."""


class PartitionFetcher(Generic[S]):
    """Reads the assigned logs from a source of messages, each from its own offset."""

    def __init__(self, connection: KafkaConnection, create: Callable[[], S], logs: Iterable[Log]) -> None:
        self._create = create
        self._generation = connection.credentials.generation
        self.source = create()
        self.topics = TopicWatch(connection, logs)
        self.ignores_group_access = False  # a reader needs no right on a group
        self._connection = connection
        self._logs: dict[Name, Log] = {}
        self._pauses = PausedPartitions(self.source)
        self._changed = False  # whether the assignment changed since the last batches: their logs may no longer be held
        self._next: dict[Name, int] = {}
        self._beyond: dict[Name, int] = {}
        self._looked = 0.0
        self._kept = NOTHING
        self._fetched = 0.0

    # renewed certificates -------------------------------------------------------------------------------------

    def renewed(self) -> S | None:
        """Return a new source after each renewal of certificates, once; otherwise None, also if it cannot be made."""
        credentials = self._connection.credentials
        if credentials.generation == self._generation:
            return None
        self._generation = credentials.generation
        return self.another()

    def another(self) -> S | None:
        """Return a new source; None if it cannot be made."""
        try:
            return self._create()
        except Error as error:
            logger.warning("a client's consumer could not be renewed: %s", error)
            return None

    def move_to(self, source: S) -> None:
        """Continue with another source, each log from its first undelivered message. End the former source."""
        former, self.source = self.source, source
        self._kept = NOTHING
        self._changed = True
        if self._next:
            source.assignment.add(self._next, self._next)
        self._pauses.move_to(source, self._logs.keys())
        Thread(target=former.close, name="mqplug-kafka-end", daemon=True).start()

    # assignment --------------------------------------------------------------------------------------------

    def __contains__(self, log: Log) -> bool:
        return self._logs.get(_name(log)) is log

    @property
    def logs(self) -> list[Log]:
        """The logs that this fetcher reads."""
        return list(self._logs.values())

    def take(self, positions: Mapping[Log, Position]) -> None:
        """Read these logs from now on."""
        self._set(positions)
        self.source.assignment.add({_name(log): to.coordinates[0] for log, to in positions.items()}, self._next)
        self._assigned(list(map(_name, positions)))

    def drop(self, logs: Iterable[Log]) -> None:
        """Stop reading these logs."""
        dropped = [name for log in logs if (name := _name(log)) in self._logs]
        self.forget(dropped)
        self.source.assignment.remove(dropped, self._next)
        self._assigned([])

    def forget(self, names: Iterable[Name]) -> None:
        """Forget partitions that the client no longer holds."""
        self._changed = True
        for name in names:
            self._next.pop(name, None)
            self._beyond.pop(name, None)
            self._pauses.paused.discard(name)
            if self._logs.pop(name, None) and self._kept:
                self._kept = self._kept.without({name})

    def move(self, positions: Mapping[Log, Position]) -> None:
        """Continue from these positions. Unassigning drops fetched messages, and works after any error."""
        for log in positions:
            if log not in self:
                raise NotAssigned(f"{log!r} is not held by this consumer", fix="Seek logs that assignment() lists")
        if self.source.assignment.restarts_all:
            if positions:
                self.take(positions)
            return
        paused = self._pauses.paused & set(map(_name, positions))
        self.drop(positions)
        self.take(positions)
        self._pauses.pause(paused)

    def _assigned(self, added: Collection[Name]) -> None:
        """Adapt pauses and kept messages to a change of the client's assignment."""
        if self.source.assignment.restarts_all:
            self._kept = NOTHING  # the messages are fetched again
            self._pauses.restarted(self._logs)
        else:
            self._pauses.taken(added)

    def _set(self, positions: Mapping[Log, Position]) -> None:
        self._changed = True
        for log, position in positions.items():
            name = _name(log)
            self._logs[name] = log
            self._next[name] = position.coordinates[0]
            self._beyond.pop(name, None)

    # pausing -----------------------------------------------------------------------------------------------

    def pause(self, logs: Iterable[Log]) -> None:
        """Stop fetching these logs. Already fetched messages are fetched again after ``resume``."""
        names = {name for log in logs if (name := _name(log)) in self._logs}
        if kept := names & self._kept.names:
            self.move({self._logs[name]: Position(self._logs[name], (self._next[name],)) for name in kept})
        self._pauses.pause(names)

    def resume(self, logs: Iterable[Log]) -> None:
        """Fetch these logs again."""
        self._pauses.resume(map(_name, logs))

    def pause_all(self) -> None:
        """Stop fetching all logs, until the next poll."""
        self._pauses.pause_all(self._logs)

    # reading -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> list[Batch]:
        """Return the messages that are fetched, or arrive in time."""
        try:
            return self._poll(most, timeout)
        except Error:
            raise
        except BaseException:  # Ctrl-C, or a failed callback: the messages of the client's call are lost
            self._rewind()
            raise

    def _poll(self, most: int, timeout: float) -> list[Batch]:
        end = time.monotonic() + timeout
        self._pauses.resume_all(self._logs)
        self._look_beyond()
        self.topics.check_in_turn()
        if self._kept.count > most:
            self._rewind()
        if not self._kept:
            self._kept = self.source.fetch(most, timeout, self._only_log)
            self._fetched = time.monotonic()
        if not self._kept or not self._is_sure(end):
            return []
        fetched, self._kept = self._kept, NOTHING
        batches = self._batches(fetched)
        following = {_name(each.log): each.next_position.coordinates[0] for each in batches}
        self.topics.note_activity(following)
        self._next.update(following)
        return batches

    def _only_log(self) -> Name | None:
        """Return the name of the only log of fetched messages; None if this fetcher has or recently had others."""
        if len(self._logs) == 1 and not self._changed:
            return next(iter(self._logs))
        self._changed = False
        return None

    def _is_sure(self, end: float) -> bool:
        """Return whether the kept messages may be delivered: they are verified, and the topics were not replaced."""
        doubted = self._kept.runs and self.topics.silent(self._kept.names)
        if doubted and not self.topics.confirm(self._fetched, _until(end)):
            return False
        return self.source.is_verified(self._kept, _until(end))

    def _rewind(self) -> None:
        """Read each log again from its first undelivered message."""
        self.move({log: Position(log, (self._next[name],)) for name, log in self._logs.items()})

    def keep(self, fetched: Fetched) -> None:
        """Keep fetched messages and errors for the next poll."""
        if fetched:
            self._kept = self._kept.and_then(fetched)
            self._fetched = time.monotonic()

    def _batches(self, fetched: Fetched) -> list[Batch]:
        ends = self._events(fetched) if fetched.errors else {}
        batches = [made for name, rows in fetched.runs if (made := self._batch(name, rows)) is not None]
        for name, end in ends.items():
            batches += self._end_reached(name, end, batches)
        return batches

    def _batch(self, name: Name, rows: Rows) -> Batch | None:
        log = self._logs.get(name)
        if log is None:  # it was revoked during the fetch
            return None
        return Batch(log, Position(log, (rows.next_offset(),)), len(rows), rows)

    def _end_reached(self, name: Name, end: int, batches: list[Batch]) -> list[Batch]:
        """Move the next position of a log's last batch to the log's end. Return an empty batch if there is none."""
        log = self._logs.get(name)
        if log is None:
            return []
        position = Position(log, (end,))
        latest = next((each for each in reversed(batches) if each.log is log), None)
        if latest is None:
            return [_empty(position)] if end > self._next[name] else []
        if end > latest.next_position.coordinates[0]:
            latest.ending_at(position)
        return []

    # events ------------------------------------------------------------------------------------------------

    def _events(self, fetched: Fetched) -> dict[Name, int]:
        """Return the reached ends of logs. Raise the error of an event, and keep the rest for the next poll."""
        ends: dict[Name, int] = {}
        errors = list(fetched.errors)
        for index, event in enumerate(errors):
            code = event.error.code()
            if code in _IGNORED_CODES:
                continue
            if code == KafkaError._PARTITION_EOF:
                ends[event.name] = event.offset
                continue
            try:
                raised = self._error(event)
            except Error:  # the lookup failed: try again at the next poll
                self._kept = Fetched(fetched.runs, errors[index:])
                raise
            if raised is not None:
                self._kept = Fetched(fetched.runs, errors[index + 1 :])
                raise raised
        return ends

    def _error(self, event: PartitionError) -> Error | None:
        error, code = event.error, event.error.code()
        if code in REMOVED_CODES:
            return self._out_of_range(event.name)
        if code in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError._UNKNOWN_PARTITION}:
            self.topics.check_soon()  # a broker may not know the topic yet
            return None
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED and self.ignores_group_access:
            return None
        if code == KafkaError._FATAL:
            return ended(error)
        return typed_error(error, "receive")

    def _out_of_range(self, name: Name) -> Error | None:
        """Return ``PositionLost`` for a position below the first message. For one beyond the end, begin to wait."""
        log = self._logs.get(name)
        if log is None:
            return None
        self._connection.check([log], LOOKUP_TIMEOUT_S)
        low = look_up(self._connection, [log], LOG_START)(LOOKUP_TIMEOUT_S)[log]
        wanted = self._next[name]
        if wanted >= low:
            self._beyond[name] = wanted
            return None
        return PositionLost(
            f"{log!r} no longer has message {wanted}: it begins at {low}",
            log=log, low=Position(log, (low,)),
        )  # fmt: skip

    def _look_beyond(self) -> None:
        """Continue in logs that have grown to a position that was beyond their end."""
        if not self._beyond or time.monotonic() - self._looked < END_CHECK_S:
            return
        self._looked = time.monotonic()
        logs = [self._logs[name] for name in self._beyond]
        high = look_up(self._connection, logs, LOG_END)(LOOKUP_TIMEOUT_S)
        reached = {log: Position(log, (self._beyond[_name(log)],)) for log in logs}
        self.move({log: at for log, at in reached.items() if at.coordinates[0] <= high[log]})


def _empty(position: Position) -> Batch:
    return Batch(position.log, position, 0, ListColumns([], [], [], [], [], []))


def _until(end: float) -> float:
    """Return the seconds until ``end``, and at least a few milliseconds, so that every check gets some time."""
    return max(0.005, end - time.monotonic())


def _name(log: Log) -> Name:
    return log.topic, log.partition


class PausedPartitions:
    """Single pauses and the pause of all partitions, which are independent: ending one does not end the other."""

    def __init__(self, source: MessageSource) -> None:
        self._source = source
        self._all_paused = False
        self.paused: set[Name] = set()

    def move_to(self, source: MessageSource, held: Collection[Name]) -> None:
        """Apply the pauses to another source, which holds these partitions."""
        self._source = source
        self._source.pause(held if self._all_paused else self.paused)

    def taken(self, names: Collection[Name]) -> None:
        """Pause or resume just assigned partitions: the client remembers pauses of earlier assignments."""
        (self._source.pause if self._all_paused else self._source.resume)(names)

    def restarted(self, held: Collection[Name]) -> None:
        """Pause or resume all partitions, after the client was assigned all of them again."""
        self.taken(set(held) - self.paused)
        self._source.pause(self.paused & set(held))

    def pause(self, names: Collection[Name]) -> None:
        """Stop fetching these partitions."""
        self.paused.update(names)
        self._source.pause(names)

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again, unless all are paused."""
        ended = self.paused & set(names)
        self.paused -= ended
        if not self._all_paused:
            self._source.resume(ended)

    def pause_all(self, held: Collection[Name]) -> None:
        """Stop fetching all partitions."""
        if not self._all_paused:
            self._all_paused = True
            self._source.pause(set(held) - self.paused)

    def resume_all(self, held: Collection[Name]) -> None:
        """Fetch all partitions again that have no single pause."""
        if self._all_paused:
            self._all_paused = False
            self._source.resume(set(held) - self.paused)
