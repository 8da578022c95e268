"""What the members of a group that share have of each log, and how far the group has come by that.

All of it is in memory, but for where the group stands, which is stored before a settlement or a seek is done. What
settles while another settlement is on its way to the disk goes there together, as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock
from typing import NamedTuple

from mqplug import Batch, Log, Position, Timeout
from mqplug.spi import GroupPosition, Lease, Leases, Settlement
from mqplug_rocksmq._consumer import lost
from mqplug_rocksmq._layout import ACKED_RANGES_MAX
from mqplug_rocksmq._places import group_position, number_of, offset_of, place_of, position_at
from mqplug_rocksmq._reading import Trimmed
from mqplug_rocksmq._shelf import Shelf
from mqplug_rocksmq._store import Store


class _Desk:
    """One log: who has what of it, and the pages that they are at work with."""

    def __init__(self, store: Store, stands: GroupPosition, *, by_key: bool) -> None:
        log = stands.position.log
        self.number = number_of(store.id, log)
        self.leases = Leases(stands, by_key=by_key, most_open=ACKED_RANGES_MAX)
        self.shelf = Shelf(store, self.number, with_keys=by_key)

    @property
    def waits(self) -> bool:
        """Whether settling may free something for others: room, or a key."""
        return self.leases.is_full or (self.leases.by_key and self.leases.has_waiting)


class _Seat(NamedTuple):
    """A member: what tells it that there may be something for it, and how long it may have a message."""

    wake: Callable[[], None]
    max_processing: float


class Sharing:
    """The lease tables of one group. Any thread."""

    def __init__(self, store: Store, group: str, *, by_key: bool) -> None:
        self.by_key = by_key
        self._store = store
        self._group = group
        self._lock = Lock()
        self._desks: dict[Log, _Desk] = {}
        self._members: dict[Hashable, _Seat] = {}
        self._storing = Lock()
        self._unstored: set[Log] = set()
        self._changes = self._stored = 0

    def join(self, member: Hashable, wake: Callable[[], None], max_processing: float | None) -> None:
        """A member begins to take messages; *wake* tells it that there may be some."""
        with self._lock:
            self._members[member] = _Seat(wake, inf if max_processing is None else max_processing)

    def leave(self, member: Hashable) -> None:
        """A member is gone: the others get what it had at once."""
        with self._lock:
            self._members.pop(member, None)
            for desk in self._desks.values():
                desk.leases.leave(member)
        self._wake()

    def take(self, member: Hashable, log: Log, most: int) -> Batch | None:
        """Hand out messages that nobody has; ``PositionLost`` if retention removed one that nobody had."""
        with self._lock:
            desk = self._desk(log)
            [(low, _, _)] = self._store.watermarks([desk.number])
            if (wanted := offset_of(desk.leases.wanted)) < low:
                raise lost(log, wanted, low)
            try:
                leases = desk.leases.take(member, most, desk.shelf.upcoming, self._members[member].max_processing)
            except Trimmed as trimmed:  # just now
                raise lost(log, wanted, trimmed.low) from None
            return self._read(desk, member, log, leases) if leases else None

    def _read(self, desk: _Desk, member: Hashable, log: Log, leases: Sequence[Lease]) -> Batch:
        try:
            return desk.shelf.batch(log, leases)
        except BaseException as error:
            desk.leases.settle(member, Settlement((), [(each.coordinates, 0.0) for each in leases]))
            if isinstance(error, Trimmed):
                raise lost(log, offset_of(desk.leases.wanted), error.low) from None
            raise

    def patience(self, logs: Iterable[Log]) -> float:
        """In how many seconds time alone may free a message of these logs, if nothing else happens till then.

        What another member takes meanwhile is free again after its ``max_processing``, and no sooner.
        """
        with self._lock:
            due = [self._desks[log].leases.next_due() for log in logs if log in self._desks]
            shortest = min((each.max_processing for each in self._members.values()), default=inf)
        soonest = min((each for each in due if each is not None), default=inf)
        return min(shortest, max(0.0, soonest - time.monotonic()))

    def settle(self, member: Hashable, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Note what became of messages, and store where the group stands by that."""
        end = time.monotonic() + timeout
        frees = any(each.returned for each in settled.values())
        with self._lock:
            for log, each in settled.items():
                desk = self._desk(log)
                frees |= desk.waits
                desk.leases.settle(member, each)
            change = self._changed(log for log, each in settled.items() if each.acked)
        if frees:
            self._wake()
        self._write(change, end)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Go on there; nobody has anything of these logs any more."""
        end = time.monotonic() + timeout
        with self._lock:
            for log, position in positions.items():
                self._desk(log).leases.seek(position)
            change = self._changed(positions)
        self._wake()
        self._write(change, end)

    def _desk(self, log: Log) -> _Desk:
        """Where a log is shared; it begins where the group stands."""
        number = number_of(self._store.id, log)
        self._store.topics.log(number)  # it was not deleted
        desk = self._desks.get(log)
        if desk is None:
            place = self._store.groups.place(self._group, number)
            stands = group_position(log, place) if place else GroupPosition(position_at(log, 0))
            desk = self._desks[log] = _Desk(self._store, stands, by_key=self.by_key)
        return desk

    def _wake(self) -> None:
        for each in list(self._members.values()):
            each.wake()

    # storing -----------------------------------------------------------------------------------------------

    def _changed(self, logs: Iterable[Log]) -> int:
        """Where the group stands in these logs has changed. Returns how many changes have to be stored by that."""
        if changed := set(logs):
            self._unstored |= changed
            self._changes += 1
            return self._changes
        return 0

    def _write(self, change: int, end: float) -> None:
        """Return when so many changes are stored; another's write may have taken them along."""
        if change <= self._stored:
            return
        with self._alone(end):
            if change <= self._stored:
                return
            with self._lock:
                change, logs, self._unstored = self._changes, self._unstored, set()
                desks = [self._desks[log] for log in logs if self._store.topics.find(self._desks[log].number)]
                stands = {desk.number: desk.leases.state() for desk in desks}
            places = {number: place_of(each) for number, each in stands.items()}
            try:
                self._store.groups.store(self._group, places, max(0.0, end - time.monotonic()))
            except BaseException:
                with self._lock:
                    self._unstored |= logs
                raise
            self._stored = change

    @contextmanager
    def _alone(self, end: float) -> Iterator[None]:
        if not self._storing.acquire(timeout=max(0.0, end - time.monotonic())):
            raise Timeout(f"what was settled in the group {self._group!r} was not stored in time")
        try:
            yield
        finally:
            self._storing.release()
