"""The state of a shared group: the messages of each log that each member has, and the positions of the group.

Positions are stored before a settlement or a seek returns. Settlements that arrive while another one is being stored
are stored together. Hand-outs and delays are noted on disk; the rest is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple

from mqplug import Batch, Error, Log, Position, Timeout
from mqplug.spi import Deadline, GroupPosition, Numbers, Offer, Settlement
from mqplug.spi.groups import Lease, Leases, Upcoming
from mqplug_rocksmq._driver.batches import PageCache
from mqplug_rocksmq._driver.consumer import position_lost
from mqplug_rocksmq._driver.translation import group_position, log_number, offset_of, position_at, stored_ranges
from mqplug_rocksmq._format.keys import StoredPosition
from mqplug_rocksmq._settings import MAX_ACKED_RANGES
from mqplug_rocksmq._store.hand_outs import HandOuts
from mqplug_rocksmq._store.logs import BelowRetained
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.topics import AddChanges

OFFER_S: Final = 0.05


class _SharedLog:
    """One log of a shared group: its leases, the pages that members work on, and its hand-out notes."""

    def __init__(self, store: Store, group: str, start: GroupPosition, *, by_key: bool) -> None:
        log = start.position.log
        self.number = log_number(store.id, log)
        self.log_id = log
        self.log = store.topics.log(self.number)
        self.leases = Leases(start, by_key=by_key, most_open=MAX_ACKED_RANGES)
        self.cache = PageCache(store, self.number, with_keys=by_key)
        self.hand_outs = HandOuts(store.journal, self.number, group)
        if known := self.hand_outs.recall():
            with suppress(BelowRetained):  # the next member that takes a message gets the error
                self.leases.recall(known, self.cache.upcoming)
            self.hand_outs.renew({at: each for at, each in known.items() if self.leases.is_open(at)})

    @property
    def place(self) -> StoredPosition:
        """The group's position, as it is stored."""
        acked = self.leases.acked_ranges
        return StoredPosition(self.leases.first_unacked[0], stored_ranges(acked) if acked else ())

    def settle(self, member: Hashable, settled: Settlement) -> int:
        """Settle messages that a member has. Return how many acks are late."""
        leases, acked, later = self.leases, settled.acked, []
        if settled.returned:
            later = [(at, delay) for at, delay in settled.returned if delay > 0 and leases.holds(member, at)]
        before = leases.open_messages
        late = leases.settle(member, settled)
        if before - leases.open_messages < len(acked):  # the member no longer had some of them
            acked = [at for at in acked if not leases.is_open(at)]
        if acked:
            self.hand_outs.acked([at[0] for at in acked])
        if later:
            self._put_off(later)
        return late

    def settle_late(self, settled: Settlement) -> int:
        """Settle messages that a previous owner handed out, whichever member has them: no ack is late."""
        later = [(at, delay) for at, delay in settled.returned if delay > 0 and self.leases.is_idle(at)]
        self.leases.settle_late(settled)
        self.hand_outs.acked([at[0] for at in settled.acked if not self.leases.is_open(at)])
        if later:
            self._put_off(later)
        return 0

    def _put_off(self, later: Sequence[tuple[Numbers, float]]) -> None:
        self.hand_outs.put_off((at[0], self.leases.attempts(at), delay) for at, delay in later)


class _MemberEntry(NamedTuple):
    """A member: how to wake it when there may be messages for it, and how long it may have one.

    ``elsewhere``: it is in another process, and may outlive this one.
    """

    wake: Callable[[], None]
    max_processing: float
    elsewhere: bool


class MemberOffer(Offer):
    """New messages of a shared log, which a member takes one by one unless another member is faster.

    It ends after a moment, so that a slow member gets messages of other logs, and its share of new logs.
    """

    def __init__(self, group: SharedGroup, member: Hashable, shared: _SharedLog, upcoming: list[Upcoming]) -> None:
        super().__init__(shared.cache.batch(shared.log_id, [Lease(each.coordinates, 1) for each in upcoming]))
        self._group = group
        self._member = member
        self._shared = shared
        self._upcoming = upcoming
        self._next = 0
        self._end = monotonic() + OFFER_S

    def take(self) -> bool:
        """Take the next message."""
        row = self._next
        if (
            row == len(self._upcoming)
            or monotonic() > self._end
            or not self._group.take_offered(self._member, self._shared, self._upcoming[row])
        ):
            return False
        self._next = row + 1
        return True

    def has_taken(self, row: int) -> bool:
        """Return whether the member has this message."""
        return self._group.holds(self._member, self._shared, self._upcoming[row].coordinates)


class SharedGroup:
    """The lease tables of one group. Any thread may call."""

    def __init__(self, store: Store, group: str, *, by_key: bool) -> None:
        self.by_key = by_key
        self._store = store
        self._group = group
        self._lock = Lock()
        self._logs: dict[Log, _SharedLog] = {}
        self._members: dict[Hashable, _MemberEntry] = {}
        self._storing = Lock()
        self._unstored: set[Log] = set()
        self._also: list[AddChanges] = []  # changes to write together with their positions
        self._changes = self._stored = 0

    def join(
        self, member: Hashable, wake: Callable[[], None], max_processing: float | None, *, elsewhere: bool = False
    ) -> None:
        """Add a member that begins to take messages. *wake* is called when there may be some for it."""
        with self._lock:
            self._members[member] = _MemberEntry(wake, inf if max_processing is None else max_processing, elsewhere)

    def resume(self, member: Hashable, holding: Mapping[Log, Sequence[Numbers]]) -> bool:
        """Let a member keep the messages that it has from a previous owner.

        Return False if other members have some of them by now. The member then keeps none.
        """
        with self._lock:
            entry = self._members[member]
            for log, held in holding.items():
                if self._store.topics.find(log_number(self._store.id, log)) is None:
                    continue
                shared = self._shared(log)
                if not shared.leases.claim(member, held, entry.max_processing):
                    for each in self._logs.values():
                        each.leases.leave(member)
                    return False
                leases = [Lease(at, shared.leases.attempts(at)) for at in sorted(held) if shared.leases.is_open(at)]
                if leases:
                    shared.hand_outs.take(leases, elsewhere=entry.elsewhere)
        return True

    def leave(self, member: Hashable) -> None:
        """Remove a member. The others can take its messages at once."""
        with self._lock:
            self._members.pop(member, None)
            for shared in self._logs.values():
                shared.leases.leave(member)
        self._wake()

    def take(self, member: Hashable, log: Log, most: int) -> Batch | None:
        """Hand out messages that no member has. Raise ``PositionLost`` if retention removed one of them."""
        with self._lock:
            shared = self._shared(log)
            self._store.check()
            if (wanted := offset_of(shared.leases.wanted)) < shared.log.low:
                raise position_lost(log, wanted, shared.log.low)
            entry = self._members[member]
            try:
                leases = shared.leases.take(member, most, shared.cache.upcoming, entry.max_processing)
            except BelowRetained as trimmed:  # just now
                raise position_lost(log, wanted, trimmed.low) from None
            if not leases:
                return None
            batch = self._read(shared, member, log, leases)
            shared.hand_outs.take(leases, elsewhere=entry.elsewhere)
            return batch

    def offer(self, member: Hashable, log: Log, most: int) -> Offer | None:
        """Return new messages of a log that the member may take one by one, if it comes to that."""
        with self._lock, suppress(Error, BelowRetained):  # the next take raises it
            shared = self._shared(log)
            self._store.check()
            if upcoming := shared.leases.upcoming(shared.cache.upcoming, most):
                return MemberOffer(self, member, shared, upcoming)
        return None

    def take_offered(self, member: Hashable, shared: _SharedLog, upcoming: Upcoming) -> bool:
        """Hand out a message that was offered, if it is still the next one. Return whether it was."""
        (offset,), log = upcoming.coordinates, shared.log
        with self._lock:
            entry = self._members.get(member)
            if entry is None or log.deleted or offset < log.low:
                return False
            try:
                self._store.engine.check()
                if shared.leases.take_new(member, upcoming, entry.max_processing):
                    shared.hand_outs.take_new(offset, elsewhere=entry.elsewhere)
                    return True
            except Error:  # the next take raises it
                pass
        return False

    def holds(self, member: Hashable, shared: _SharedLog, coordinates: Numbers) -> bool:
        """Return whether a member has a message."""
        with self._lock:
            return shared.leases.holds(member, coordinates)

    def _read(self, shared: _SharedLog, member: Hashable, log: Log, leases: Sequence[Lease]) -> Batch:
        try:
            return shared.cache.batch(log, leases)
        except BaseException as error:
            shared.leases.settle(member, Settlement((), [(each.coordinates, 0.0) for each in leases]))
            if isinstance(error, BelowRetained):
                raise position_lost(log, offset_of(shared.leases.wanted), error.low) from None
            raise

    def seconds_to_next_free(self, logs: Iterable[Log]) -> float:
        """Return the seconds until a message of these logs may become free by the passing of time.

        A message that another member takes during that wait is free again after that member's ``max_processing`` at the
        earliest.
        """
        with self._lock:
            due = [self._logs[log].leases.next_due() for log in logs if log in self._logs]
            shortest = min((each.max_processing for each in self._members.values()), default=inf)
        next_due = min((each for each in due if each is not None), default=inf)
        return min(shortest, max(0.0, next_due - monotonic()))

    def stop_clock(self, member: Hashable, log: Log, coordinates: Numbers) -> None:
        """Let a member keep a message until it settles it."""
        with self._lock:
            if shared := self._logs.get(log):
                shared.leases.stop_clock(member, coordinates)

    def settle(self, member: Hashable | None, settled: Mapping[Log, Settlement], timeout: float) -> int:
        """Settle messages, and store the group's new positions. Return how many acks are late.

        Without a *member*, settle messages that a previous owner handed out, whichever member has them by now.
        """
        frees, late, acked = False, 0, []
        with self._lock:
            for log, each in settled.items():
                shared = self._shared(log)
                # Whether this may free something for other members: a message, room, or a key.
                frees |= bool(each.returned) or shared.leases.is_full or (self.by_key and shared.leases.has_waiting)
                late += shared.settle_late(each) if member is None else shared.settle(member, each)
                if each.acked:
                    acked.append(log)
            change = self._changed(acked)
        if frees:
            self._wake()
        self._write(change, timeout)
        return late

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Move the group. No member keeps a message of these logs."""
        with self._lock:
            for log, position in positions.items():
                shared = self._shared(log)
                shared.leases.seek(position)
                self._also.append(shared.hand_outs.forgotten())
            change = self._changed(positions)
        self._wake()
        self._write(change, timeout)

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count removed messages before these positions as acked, whichever member has them."""
        with self._lock:
            for log, position in positions.items():
                self._shared(log).leases.trim(position)
            change = self._changed(positions)
        self._write(change, timeout)

    def _shared(self, log: Log) -> _SharedLog:
        """Return the state of a log. It begins at the group's position."""
        shared = self._logs.get(log)
        if shared and not shared.log.deleted:
            return shared
        number = log_number(self._store.id, log)
        self._store.topics.log(number)  # it was not deleted
        if shared is None:
            place = self._store.groups.position(self._group, number)
            start = group_position(log, place) if place else GroupPosition(position_at(log, 0))
            shared = self._logs[log] = _SharedLog(self._store, self._group, start, by_key=self.by_key)
        return shared

    def _wake(self) -> None:
        for each in list(self._members.values()):
            each.wake()

    # storing -----------------------------------------------------------------------------------------------

    def _changed(self, logs: Collection[Log]) -> int:
        """Record that the group's positions in these logs have changed. Return the number of changes to be stored."""
        if not logs:
            return 0
        self._unstored.update(logs)
        self._changes += 1
        return self._changes

    def _write(self, change: int, timeout: float) -> None:
        """Wait until this many changes are stored. Another thread's write may have included them."""
        if change <= self._stored:
            return
        if not self._storing.acquire(blocking=False):
            deadline = Deadline(timeout)
            if not self._storing.acquire(timeout=timeout):
                raise Timeout(f"the settlements of the group {self._group!r} were not stored within {timeout:g} s")
            timeout = deadline.remaining()
        try:
            if change > self._stored:
                self._write_all(timeout)
        finally:
            self._storing.release()

    def _write_all(self, timeout: float) -> None:
        """Store all changes made until now. Only one thread may call at a time."""
        places: dict[int, StoredPosition] = {}
        over: list[tuple[HandOuts, list[bytes]]] = []
        with self._lock:
            change, logs, self._unstored = self._changes, self._unstored, set()
            also, self._also = self._also, []
            for shared in map(self._logs.__getitem__, logs):
                if not shared.log.deleted:
                    places[shared.number] = shared.place
                    if keys := shared.hand_outs.take_over():
                        over.append((shared.hand_outs, keys))
        try:
            self._store.groups.store(self._group, places, timeout, also)
        except BaseException:
            with self._lock:
                self._unstored |= logs
                self._also[:0] = also
                for hand_outs, keys in over:
                    hand_outs.give_back(keys)
            raise
        for _, keys in over:
            self._store.journal.drop(keys)
        self._stored = change
