"""Fetches the messages of the partitions that a reader or a group member holds."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from threading import Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from mqplug import Batch, Error, Log, NotAssigned, Position, PositionLost
from mqplug_kafka._admin.log_offsets import LOG_END, LOG_START, look_up
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import ended, error_from_native
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._consume.message_columns import Name, batch, messages_by_partition, name_of
from mqplug_kafka._consume.native_assignment import IncrementalAssignment, NativeAssignment, WholeAssignment
from mqplug_kafka._consume.paused_partitions import PausedPartitions
from mqplug_kafka._consume.topic_watch import TopicWatch

END_CHECK_S = 0.5  # between two checks whether the log has reached a position beyond its end
LOOKUP_TIMEOUT_S = 5.0
FETCH_MESSAGES = 1000  # at a time at most: where they have to wait for the next poll, that may ask for no more

_IGNORED_CODES = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._WAIT_COORD,
}
"""Events that the native client recovers from by itself, or that a callback reports in more detail."""


class PartitionFetcher:
    """A native consumer that reads the assigned logs, each from its own offset."""

    def __init__(
        self, connection: KafkaConnection, options: Mapping[str, Any], logs: Iterable[Log], *, eager: bool = False
    ) -> None:
        self._options = options
        self._generation = connection.credentials.generation
        self.native = _create(connection, options)
        self._assign_by = WholeAssignment if eager else IncrementalAssignment
        self.assignment: NativeAssignment = self._assign_by(self.native)
        self.topics = TopicWatch(connection, logs)
        self.ignores_group_access = False  # a reader needs no right on a group
        self._connection = connection
        self._logs: dict[Name, Log] = {}
        self._pauses = PausedPartitions(self.native)
        self._changed = False  # the assignment, since the last batches: messages may be of a log no longer held
        self._next: dict[Name, int] = {}
        self._beyond: dict[Name, int] = {}
        self._looked = 0.0
        self._kept: list[Message] = []
        self._fetched = 0.0

    # renewed certificates -------------------------------------------------------------------------------------

    def renewed(self) -> Consumer | None:
        """Return a new native client if certificates were renewed, once for each time, and None if none can be made."""
        credentials = self._connection.credentials
        if credentials.generation == self._generation:
            return None
        self._generation = credentials.generation
        return self.another()

    def another(self) -> Consumer | None:
        """Return a new native client with the same options, and None if none can be made."""
        try:
            return _create(self._connection, self._options)
        except Error as error:
            logger.warning("a native consumer could not be renewed: %s", error)
            return None

    def move_to(self, native: Consumer) -> None:
        """Read on in another native client, each log from its first message that was not delivered. End the former."""
        former, self.native = self.native, native
        self._kept = []
        self._changed = True
        self.assignment = self._assign_by(native)
        if self._next:
            self.assignment.add(self._next, self._next)
        self._pauses.move_to(native, self._logs.keys())
        Thread(target=former.close, name="mqplug-kafka-end", daemon=True).start()

    # assignment --------------------------------------------------------------------------------------------

    def __contains__(self, log: Log) -> bool:
        return self._logs.get(_name(log)) is log

    @property
    def logs(self) -> list[Log]:
        """The logs that are read."""
        return list(self._logs.values())

    def take(self, positions: Mapping[Log, Position]) -> None:
        """Read these logs from now on."""
        self._set(positions)
        self.assignment.add({_name(log): to.coordinates[0] for log, to in positions.items()}, self._next)
        self._assigned(list(map(_name, positions)))

    def drop(self, logs: Iterable[Log]) -> None:
        """Stop reading these logs."""
        dropped = [name for log in logs if (name := _name(log)) in self._logs]
        self.forget(dropped)
        self.assignment.remove(dropped, self._next)
        self._assigned([])

    def forget(self, names: Iterable[Name]) -> None:
        """Forget partitions that the native client no longer holds."""
        self._changed = True
        for name in names:
            self._next.pop(name, None)
            self._beyond.pop(name, None)
            self._pauses.paused.discard(name)
            if self._logs.pop(name, None):
                self._kept = [message for message in self._kept if name_of(message) != name]

    def move(self, positions: Mapping[Log, Position]) -> None:
        """Read on from these positions. Unassigning drops fetched messages, and works after any error."""
        for log in positions:
            if log not in self:
                raise NotAssigned(f"{log!r} is not held by this consumer", fix="Seek logs that assignment() lists")
        if self.assignment.restarts_all:
            if positions:
                self.take(positions)
            return
        paused = self._pauses.paused & set(map(_name, positions))
        self.drop(positions)
        self.take(positions)
        self._pauses.pause(paused)

    def _assigned(self, added: Collection[Name]) -> None:
        """Bring pauses and kept messages into agreement with a change of the native assignment."""
        if self.assignment.restarts_all:
            self._kept = []  # they are fetched again
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
        """Stop fetching these logs. Messages fetched already are fetched again after ``resume``."""
        names = {name for log in logs if (name := _name(log)) in self._logs}
        if kept := names & set(map(name_of, self._kept)):
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
        except BaseException:  # Ctrl-C, or a failed callback: the messages of the native call are gone
            self._rewind()
            raise

    def _poll(self, most: int, timeout: float) -> list[Batch]:
        end = time.monotonic() + timeout
        self._pauses.resume_all(self._logs)
        self._look_beyond()
        self.topics.check_in_turn()
        if not self._kept:
            self._kept = self._fetch(min(most, FETCH_MESSAGES), timeout)
        if not self._kept:
            return []
        found = self._by_partition(self._kept)
        if self.topics.silent(found) and not self._confirmed(end):
            return []
        messages, self._kept = self._kept, []
        batches = self._batches(messages, found)
        behind = {_name(each.log): each.next_position.coordinates[0] for each in batches}
        self.topics.heard(behind)
        self._next.update(behind)
        return batches

    def _rewind(self) -> None:
        """Read again from the first message of each log that was not delivered."""
        self.move({log: Position(log, (self._next[name],)) for name, log in self._logs.items()})

    def serve(self) -> None:
        """Serve callbacks. Keep a message that arrives for the next poll."""
        message = self.native.poll(0)
        if message is not None:
            self._kept.append(message)
            self._fetched = time.monotonic()

    def _fetch(self, most: int, timeout: float) -> list[Message]:
        """Wait for one message and take the others that are there: the native call for many waits for all of them."""
        first = self.native.poll(timeout)
        if first is None:
            return []
        rest = self.native.consume(most - 1, 0) if most > 1 else []
        self._fetched = time.monotonic()
        return [first, *rest]

    def _confirmed(self, end: float) -> bool:
        if all(message.error() is not None for message in self._kept):
            return True
        return self.topics.confirm(self._fetched, max(0.005, end - time.monotonic()))

    def _batches(self, messages: list[Message], found: dict[Name, list[Message]]) -> list[Batch]:
        ends: dict[Name, int] = {}
        if any(map(Message.error, messages)):  # an error compares with nothing, not even None, but is true
            failed = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            ends = self._events(failed, messages)
            found = {name: [each for each in some if each.error() is None] for name, some in found.items()}
        batches = []
        for name in found.keys() | ends.keys():
            made = self._batch(name, found.get(name, []), ends.get(name, 0))
            if made is not None:
                batches.append(made)
        return batches

    def _by_partition(self, messages: list[Message]) -> dict[Name, list[Message]]:
        if len(self._logs) == 1 and not self._changed:
            return {next(iter(self._logs)): messages}
        self._changed = False
        return messages_by_partition(messages)

    def _batch(self, name: Name, messages: list[Message], end: int) -> Batch | None:
        log = self._logs.get(name)
        if log is None:  # it was revoked while these came
            return None
        behind = max(end, (messages[-1].offset() or 0) + 1 if messages else 0)
        if not messages and behind <= self._next[name]:
            return None
        return batch(log, messages, behind)

    # events ------------------------------------------------------------------------------------------------

    def _events(self, failed: list[Message], messages: list[Message]) -> dict[Name, int]:
        """Return the log ends that were reached. Raise an error event, keeping the messages for the next poll."""
        ends: dict[Name, int] = {}
        for index, event in enumerate(failed):
            error = event.error()
            if error is None or error.code() in _IGNORED_CODES:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                ends[name_of(event)] = event.offset() or 0
                continue
            try:
                raised = self._error(event, error)
            except Error:  # the lookup failed: try again at the next poll
                self._kept = messages + failed[index:]
                raise
            if raised is not None:
                self._kept = messages + failed[index + 1 :]
                raise raised
        return ends

    def _error(self, event: Message, error: KafkaError) -> Error | None:
        code = error.code()
        if code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            return self._out_of_range(name_of(event))
        if code in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError._UNKNOWN_PARTITION}:
            self.topics.check_soon()  # a broker may not know the topic yet
            return None
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED and self.ignores_group_access:
            return None
        if code == KafkaError._FATAL:
            return ended(error)
        return error_from_native(error, "receive")

    def _out_of_range(self, name: Name) -> Error | None:
        """Return ``PositionLost`` for a position below the first message. Wait for one beyond the end."""
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
        """Read on in logs that have grown to a position that was beyond their end."""
        if not self._beyond or time.monotonic() - self._looked < END_CHECK_S:
            return
        self._looked = time.monotonic()
        logs = [self._logs[name] for name in self._beyond]
        high = look_up(self._connection, logs, LOG_END)(LOOKUP_TIMEOUT_S)
        reached = {log: Position(log, (self._beyond[_name(log)],)) for log in logs}
        self.move({log: at for log, at in reached.items() if at.coordinates[0] <= high[log]})


def _create(connection: KafkaConnection, options: Mapping[str, Any]) -> Consumer:
    try:
        return Consumer(connection.credentials.prepared(options, connection.requests.failures))
    except KafkaException as error:
        raise error_from_native(error, "the settings were refused") from error


def _name(log: Log) -> Name:
    return log.topic, log.partition
