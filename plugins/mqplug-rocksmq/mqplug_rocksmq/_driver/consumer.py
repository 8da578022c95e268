"""Consumers: one reads logs from given positions on, the other is a group member that holds a share of the logs."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from mqplug import Batch, Error, Log, NotAssigned, Position, PositionLost, TopicNotFound
from mqplug.spi import Bell, ConsumerDriver, ConsumerOptions, GroupPosition, Listener, Numbers
from mqplug.spi.groups import Roster, member_name
from mqplug_rocksmq._driver.batches import next_batch
from mqplug_rocksmq._driver.translation import group_position, log_number, offset_of, position_at, stored_position
from mqplug_rocksmq._format.slices import Slice
from mqplug_rocksmq._store.logs import BelowRetained
from mqplug_rocksmq._store.store import Store

THIS_HOST: Final = socket.gethostname()  # all processes of a store are on one host
_READ_AHEAD_MESSAGES: Final = 1000
_FEW_LOGS: Final = 4  # up to this many, several pages of each are read at once; of more, they would take much memory
_REVOKE_COMMIT_S: Final = 5.0  # for storing the positions of logs that go to another member


class JoinContext(NamedTuple):
    """The messages that a joining member still has from a previous owner, and the bell of a member in another process.

    ``process`` is the id of its process on this host, or None where the system does not report it.
    """

    holding: Mapping[Log, Sequence[Numbers]] = {}
    elsewhere: Bell | None = None
    process: int | None = None

    def new_name(self) -> str:
        """Return a new name for the member, which identifies its process to an operator."""
        return member_name(os.getpid() if self.elsewhere is None else self.process)


NEW_MEMBER: Final = JoinContext()


class LogConsumer(ConsumerDriver):
    """Reads logs from given positions on."""

    resumed = True  # it still has everything that it had with a previous owner

    def __init__(self, store: Store, positions: Mapping[Log, Position], bell: Bell | None = None) -> None:
        self._store = store
        self._bell = bell or Bell()
        self._numbers: dict[Log, int] = {}
        self._offsets: dict[Log, int] = {}
        self._ahead: dict[Log, deque[Slice]] = {}  # read, and not handed out
        self._paused: set[Log] = set()
        self._hold(positions)

    def wake(self) -> None:
        self._bell.ring()

    def _hold(self, positions: Mapping[Log, Position]) -> None:
        for log, position in positions.items():
            number = log_number(self._store.id, log)
            self._watch(number)
            self._numbers[log] = number
            self._offsets[log] = offset_of(position)

    def _watch(self, number: int) -> None:
        self._store.watch(number, self._bell.ring)

    def _release(self, logs: Iterable[Log]) -> None:
        for log in logs:
            self._store.unwatch(self._numbers.pop(log), self._bell.ring)
            self._offsets.pop(log)
            self._ahead.pop(log, None)
            self._paused.discard(log)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        start = options.start if isinstance(options.start, Mapping) else {}
        self._release(self._offsets.keys() - set(options.logs))
        self._hold({log: start[log] for log in options.logs if log not in self._offsets})

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self.tend(timeout)
        batches = self.read(most)
        if not batches and timeout > 0:
            self.wait(timeout)  # an append since the read above ends it at once
            batches = self.read(most)
        return batches

    def wait(self, timeout: float) -> None:
        """Wait until there may be messages. An append since the last read ends the wait at once."""
        self._bell.wait(self._max_wait(timeout))

    def _max_wait(self, timeout: float) -> float:
        """Return how long to wait if nothing ends the wait earlier."""
        return timeout

    _shares = False
    """Whether the time of a message begins with its poll: then a poll takes those of one log, which are handed out."""

    def read(self, most: int) -> list[Batch]:
        """Return available messages, as a poll does. No log is assigned or revoked."""
        batches: list[Batch] = []
        for log in self._active():
            if batches and (ahead := self._ahead.get(log)) and len(ahead[0]) > most:
                break  # it comes first in the next poll: each part of a page takes as long to decode as the whole
            try:
                batch = self._next(log, most)
            except Error as error:
                if batches:
                    break  # the next poll raises it
                error.at(topic=log.topic)
                raise
            if batch is None:
                continue
            self._offsets[log] = self._offsets.pop(log)  # to the end: every log gets its turn
            batches.append(batch)
            most -= len(batch)
            if most <= 0 or self._shares:
                break
        return batches

    def _next(self, log: Log, most: int) -> Batch | None:
        ahead = self._ahead.get(log) or self._fetch(log, most)
        return next_batch(log, ahead, most) if ahead else None

    def _active(self) -> list[Log]:
        return [log for log in self._offsets if log not in self._paused]

    def _fetch(self, log: Log, most: int) -> deque[Slice] | None:
        # Read ahead for a consumer that continues to read. After a seek, it may want a single message.
        wanted = max(most, self._read_ahead) if log in self._ahead else most
        try:
            slices = self._store.read(self._numbers[log], self._offsets[log], wanted)
        except BelowRetained as trimmed:
            raise position_lost(log, self._offsets[log], trimmed.low) from None
        if not slices:
            return None
        self._offsets[log] = slices[-1].end
        ahead = self._ahead[log] = deque(slices)
        return ahead

    @property
    def _read_ahead(self) -> int:
        return 4 * _READ_AHEAD_MESSAGES if len(self._offsets) <= _FEW_LOGS else _READ_AHEAD_MESSAGES

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._check_held(positions)
        self._move(positions)

    def _check_held(self, logs: Iterable[Log]) -> None:
        for log in logs:
            if log not in self._offsets:
                raise NotAssigned(f"this consumer does not hold {log!r}", topic=log.topic)

    def _move(self, positions: Mapping[Log, Position]) -> None:
        for log, position in positions.items():
            self._ahead.pop(log, None)
            self._offsets[log] = offset_of(position)

    def close(self, timeout: float) -> None:
        self._release(list(self._offsets))


def position_lost(log: Log, wanted: int, low: int) -> PositionLost:
    """Return the error of a consumer whose next message was removed."""
    return PositionLost(
        f"the message {wanted} of {log!r} was removed: the log begins at {low}", log=log, low=position_at(log, low)
    )


class GroupConsumer(LogConsumer):
    """A member of a group: holds the logs that the group's roster assigns to it, and stores their positions."""

    def __init__(
        self,
        store: Store,
        group: str,
        options: ConsumerOptions,
        roster: Roster,
        listener: Listener,
        context: JoinContext = NEW_MEMBER,
    ) -> None:
        super().__init__(store, {}, context.elsewhere)
        self._groups = store.groups
        self._group = group
        self._listener = listener
        self._terms: dict[Log, int] = {}  # for each held log, the number of the assignment that brought it
        self._taken = 0
        self._seat = roster.join(options.logs, self._bell.ring, options.mode, name=context.new_name(), host=THIS_HOST)

    def tend(self, timeout: float) -> None:
        leaving, taken = self._seat.changes()
        try:
            if leaving:
                self._give_up(leaving, timeout)
        finally:
            if taken:  # the seat reports them only once
                self._take(taken)

    def _give_up(self, logs: Sequence[Log], timeout: float) -> None:
        for log in logs:  # before the listener is asked: afterwards no transaction may store more positions
            self._terms.pop(log, None)
        positions = self._listener.revoked(logs)
        left = {log: each for log, each in positions.items() if self._is_there(log)}
        with suppress(TopicNotFound):  # deleted just now
            self.commit(left, max(timeout, _REVOKE_COMMIT_S))
        self._release(logs)
        self._seat.release(logs)

    def _take(self, logs: Sequence[Log]) -> None:
        stored = {log: self._stored(log) for log in logs}
        self._hold({log: each.position for log, each in stored.items()})
        self._taken += 1
        self._terms |= dict.fromkeys(logs, self._taken)
        self._listener.assigned({log: each for log, each in stored.items() if self._is_there(log)})

    def _is_there(self, log: Log) -> bool:
        return self._store.topics.find(self._numbers[log]) is not None

    def _watch(self, number: int) -> None:
        with suppress(TopicNotFound):  # each poll raises it; none may forget the other logs
            super()._watch(number)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Share these logs with the other members. In new logs the group begins at the first message."""
        numbers = {log: log_number(self._store.id, log) for log in options.logs}
        new = [log for log, number in numbers.items() if self._groups.position(self._group, number) is None]
        if new:
            extents = self._store.watermarks([numbers[log] for log in new])
            starts = {log: GroupPosition(position_at(log, each.low)) for log, each in zip(new, extents, strict=True)}
            self._groups.start(
                self._group, {numbers[log]: stored_position(each) for log, each in starts.items()}, timeout
            )
        self._seat.want(options.logs)

    def membership(self) -> Membership:
        """Return proof for a transaction that this member still holds its logs."""
        return Membership(self, dict(self._terms))

    def holds_since(self, terms: Mapping[Log, int], logs: Iterable[Log]) -> bool:
        """Return whether this member has held these logs without a break since it had these terms."""
        held = self._terms
        return all(log in held and held[log] == terms.get(log) for log in logs)

    def is_member_of(self, store: Store, group: str) -> bool:
        """Return whether this is a member of that group of this store."""
        return self._store is store and self._group == group

    def _stored(self, log: Log) -> GroupPosition:
        place = self._groups.position(self._group, log_number(self._store.id, log))
        return group_position(log, place) if place else GroupPosition(position_at(log, 0))

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        self._check_held(positions)
        self.commit({log: GroupPosition(position) for log, position in positions.items()}, timeout)
        self._move(positions)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if positions:
            places = {log_number(self._store.id, log): stored_position(each) for log, each in positions.items()}
            self._groups.store(self._group, places, timeout)

    def close(self, timeout: float) -> None:
        self._terms = {}
        super().close(timeout)
        self._seat.leave()


class Membership(NamedTuple):
    """A member of a group, and its logs at one moment. ``terms`` reveal a log that was lost and reassigned since."""

    consumer: GroupConsumer
    terms: Mapping[Log, int]

    def holds(self, store: Store, group: str, logs: Iterable[Log]) -> bool:
        """Return whether the member still holds these logs."""
        return self.consumer.is_member_of(store, group) and self.consumer.holds_since(self.terms, logs)
