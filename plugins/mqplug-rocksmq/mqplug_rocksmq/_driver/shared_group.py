"""What the members of a group that share have of each log, and how far the group has come by that.

Where the group stands is stored before a settlement or a seek is done; what settles while another settlement is on its
way to the disk goes there together, as one. What is handed out, and what is put off, is noted; all else is in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Lock
from typing import NamedTuple

from mqplug import Batch, Log, Position, Timeout
from mqplug.spi import GroupPosition, Numbers, Settlement
from mqplug.spi.groups import Lease, Leases
from mqplug_rocksmq._driver.consumer import position_lost
from mqplug_rocksmq._driver.page_cache import PageCache
from mqplug_rocksmq._driver.translation import group_position, log_number, offset_of, position_at, stored_position
from mqplug_rocksmq._format.keys import MAX_ACKED_RANGES
from mqplug_rocksmq._store.group_positions import AddChanges
from mqplug_rocksmq._store.hand_outs import HandOuts
from mqplug_rocksmq._store.reading import BelowRetained
from mqplug_rocksmq._store.store import Store


class _SharedLog:
    """One log: who has what of it, and the pages that they are at work with."""

    def __init__(self, store: Store, group: str, stands: GroupPosition, *, by_key: bool) -> None:
        log = stands.position.log
        self.number = log_number(store.id, log)
        self.log = store.topics.log(self.number)
        self.leases = Leases(stands, by_key=by_key, most_open=MAX_ACKED_RANGES)
        self.shelf = PageCache(store, self.number, with_keys=by_key)
        self.handed = HandOuts(store, self.number, group)
        if known := self.handed.recall():
            with suppress(BelowRetained):  # whoever takes the next message is told
                self.leases.recall(known, self.shelf.upcoming)
            self.handed.renew({at: each for at, each in known.items() if self.leases.is_open(at)})

    @property
    def waits(self) -> bool:
        """Whether settling may free something for others: room, or a key."""
        return self.leases.is_full or (self.leases.by_key and self.leases.has_waiting)

    def settle(self, member: Hashable, settled: Settlement) -> None:
        """Note what became of messages that a member has."""
        later = [(at, delay) for at, delay in settled.returned if delay > 0 and self.leases.holds(member, at)]
        before = len(self.leases)
        self.leases.settle(member, settled)
        acked = settled.acked
        if before - len(self.leases) < len(acked):  # it had some of them no more
            acked = [at for at in acked if not self.leases.is_open(at)]
        self._note(acked, later)

    def settle_late(self, settled: Settlement) -> None:
        """Note what became of messages that an owner before this one had handed out."""
        later = [(at, delay) for at, delay in settled.returned if delay > 0 and self.leases.is_idle(at)]
        self.leases.settle_late(settled)
        self._note([at for at in settled.acked if not self.leases.is_open(at)], later)

    def _note(self, acked: Sequence[Numbers], later: Sequence[tuple[Numbers, float]]) -> None:
        self.handed.drop([at[0] for at in acked])
        if later:
            self.handed.put_off((at[0], self.leases.attempts(at), delay) for at, delay in later)


class _MemberEntry(NamedTuple):
    """A member: what tells it that there may be something for it, and how long it may have a message.

    ``elsewhere``: it is in another process, and may outlive this one.
    """

    wake: Callable[[], None]
    max_processing: float
    elsewhere: bool


class SharedGroup:
    """The lease tables of one group. Any thread."""

    def __init__(self, store: Store, group: str, *, by_key: bool) -> None:
        self.by_key = by_key
        self._store = store
        self._group = group
        self._lock = Lock()
        self._desks: dict[Log, _SharedLog] = {}
        self._members: dict[Hashable, _MemberEntry] = {}
        self._storing = Lock()
        self._unstored: set[Log] = set()
        self._also: list[AddChanges] = []  # what goes to the disk together with that
        self._changes = self._stored = 0

    def join(
        self, member: Hashable, wake: Callable[[], None], max_processing: float | None, *, elsewhere: bool = False
    ) -> None:
        """A member begins to take messages; *wake* tells it that there may be some."""
        with self._lock:
            self._members[member] = _MemberEntry(wake, inf if max_processing is None else max_processing, elsewhere)

    def resume(self, member: Hashable, holding: Mapping[Log, Sequence[Numbers]]) -> bool:
        """A member goes on with what it had of an owner before this one; False if others have some of it by now.

        It has nothing then.
        """
        with self._lock:
            seat = self._members[member]
            for log, held in holding.items():
                if self._store.topics.find(log_number(self._store.id, log)) is None:
                    continue
                desk = self._desk(log)
                if not desk.leases.claim(member, held, seat.max_processing):
                    for each in self._desks.values():
                        each.leases.leave(member)
                    return False
                leases = [Lease(at, desk.leases.attempts(at)) for at in sorted(held) if desk.leases.is_open(at)]
                if leases:
                    desk.handed.take(leases, elsewhere=seat.elsewhere)
        return True

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
            self._store.check()
            if (wanted := offset_of(desk.leases.wanted)) < desk.log.low:
                raise position_lost(log, wanted, desk.log.low)
            seat = self._members[member]
            try:
                leases = desk.leases.take(member, most, desk.shelf.upcoming, seat.max_processing)
            except BelowRetained as trimmed:  # just now
                raise position_lost(log, wanted, trimmed.low) from None
            if not leases:
                return None
            batch = self._read(desk, member, log, leases)
            desk.handed.take(leases, elsewhere=seat.elsewhere)
            return batch

    def _read(self, desk: _SharedLog, member: Hashable, log: Log, leases: Sequence[Lease]) -> Batch:
        try:
            return desk.shelf.batch(log, leases)
        except BaseException as error:
            desk.leases.settle(member, Settlement((), [(each.coordinates, 0.0) for each in leases]))
            if isinstance(error, BelowRetained):
                raise position_lost(log, offset_of(desk.leases.wanted), error.low) from None
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
        self._settle(settled, timeout, lambda desk, each: desk.settle(member, each))

    def settle_late(self, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """The same for what an owner before this one had handed out, whoever has it by now."""
        self._settle(settled, timeout, _SharedLog.settle_late)

    def _settle(
        self, settled: Mapping[Log, Settlement], timeout: float, settle: Callable[[_SharedLog, Settlement], None]
    ) -> None:
        end = time.monotonic() + timeout
        frees, acked = False, []
        with self._lock:
            for log, each in settled.items():
                desk = self._desk(log)
                frees |= bool(each.returned) or desk.waits
                settle(desk, each)
                if each.acked:
                    acked.append(log)
            change = self._changed(acked)
        if frees:
            self._wake()
        self._write(change, end)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Go on there; nobody has anything of these logs any more."""
        end = time.monotonic() + timeout
        with self._lock:
            for log, position in positions.items():
                desk = self._desk(log)
                desk.leases.seek(position)
                self._also.append(desk.handed.forgotten())
            change = self._changed(positions)
        self._wake()
        self._write(change, end)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """What lies before was removed: it counts as acked, whoever has it."""
        end = time.monotonic() + timeout
        with self._lock:
            for log, position in positions.items():
                self._desk(log).leases.trim(position)
            change = self._changed(positions)
        self._write(change, end)

    def _desk(self, log: Log) -> _SharedLog:
        """Where a log is shared; it begins where the group stands."""
        desk = self._desks.get(log)
        if desk and not desk.log.deleted:
            return desk
        number = log_number(self._store.id, log)
        self._store.topics.log(number)  # it was not deleted
        if desk is None:
            place = self._store.groups.position(self._group, number)
            stands = group_position(log, place) if place else GroupPosition(position_at(log, 0))
            desk = self._desks[log] = _SharedLog(self._store, self._group, stands, by_key=self.by_key)
        return desk

    def _wake(self) -> None:
        for each in list(self._members.values()):
            each.wake()

    # storing -----------------------------------------------------------------------------------------------

    def _changed(self, logs: Collection[Log]) -> int:
        """Where the group stands in these logs has changed. Returns how many changes have to be stored by that."""
        if not logs:
            return 0
        self._unstored.update(logs)
        self._changes += 1
        return self._changes

    def _write(self, change: int, end: float) -> None:
        """Return when so many changes are stored; another's write may have taken them along."""
        if change <= self._stored:
            return
        if not self._storing.acquire(timeout=max(0.0, end - time.monotonic())):
            raise Timeout(f"what was settled in the group {self._group!r} was not stored in time")
        try:
            if change > self._stored:
                self._write_all(end)
        finally:
            self._storing.release()

    def _write_all(self, end: float) -> None:
        """Store all that has changed until now; one at a time."""
        with self._lock:
            change, logs, self._unstored = self._changes, self._unstored, set()
            stands: dict[int, GroupPosition] = {}
            also, self._also = self._also, []
            for desk in map(self._desks.__getitem__, logs):
                if not desk.log.deleted:
                    stands[desk.number] = desk.leases.state()
                    also.append(desk.handed.finished())
        places = {number: stored_position(each) for number, each in stands.items()}
        try:
            self._store.groups.store(self._group, places, max(0.0, end - time.monotonic()), also)
        except BaseException:
            with self._lock:
                self._unstored |= logs
                self._also[:0] = also
            raise
        self._stored = change
