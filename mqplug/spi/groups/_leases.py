"""The lease table: which member has which message of a log that the members of a group share.

There is one table for each log of a group, in memory. It does no I/O and takes no lock: the backend calls it under its
own lock, reads the log for it, and stores ``state()`` if groups are durable.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import repeat
from math import inf
from typing import Final, NamedTuple

import attrs

from mqplug._model.id_text import Numbers
from mqplug._model.position import Position
from mqplug.spi._actions import GroupPosition, Settlement
from mqplug.spi.groups._delivery_order import Open, Turns

AckedRange = tuple[Numbers, Numbers]


def tidy(stands: GroupPosition) -> GroupPosition:
    """Return the position with its ranges ascending, merged where they overlap, and cut where the position is later."""
    acked: list[AckedRange] = []
    begin = stands.position.coordinates
    for first, last in sorted(stands.acked):
        if last < begin:
            continue
        if acked and first <= acked[-1][1]:
            acked[-1] = (acked[-1][0], max(acked[-1][1], last))
        else:
            acked.append((max(first, begin), last))
    return attrs.evolve(stands, acked=tuple(acked))


_LOOK_AHEAD_MESSAGES: Final = 1000  # messages read at a time


class Upcoming(NamedTuple):
    """A message of the log, in the form that the table needs; the last field is the position right after it."""

    coordinates: Numbers
    key: bytes | None
    behind: Numbers


class Lease(NamedTuple):
    """A message that was handed to a member, and the number of this delivery, counted from 1."""

    coordinates: Numbers
    attempt: int


_as_lease: Callable[[tuple[Numbers, int]], Lease] = partial(tuple.__new__, Lease)
"""Makes a lease of a pair without a Python call, because there may be thousands."""


class Recalled(NamedTuple):
    """A message's history: how often it was handed out, and in how many seconds it may be handed out again."""

    attempts: int
    delay: float = 0.0


ReadUpcoming = Callable[[Numbers, int], Iterable[tuple[Numbers, bytes | None, Numbers]]]
"""The function that a backend passes to ``take``. It returns up to that many messages from a position on, in order, as
``Upcoming`` or as plain tuples.
"""


class _Run(NamedTuple):
    """New messages that went to a member together. None of them was settled since."""

    member: Hashable
    coordinates: list[Numbers]


class Leases:
    """The lease table of one log.

    A message is leased to a member until the member settles it, leaves, or has had it for ``max_processing`` seconds.
    If it was not acked, it goes to the next member that asks, as another attempt. ``stop_clock`` ends the time limit. A
    late settlement counts if no other member has taken the message. With ``by_key`` the messages of one key come in
    order, and one member at a time has them: a message that must be delivered again blocks later ones of its key.

    The table keeps at most ``most_open`` open messages, and one range of acked ones for each, which takes 300 to 600
    bytes per message. When that many are open (with members, delayed, or blocked by their keys), no new ones are handed
    out until some are acked. The cost of a call grows with the messages that it hands out or takes back, not with the
    open ones.

    New messages that a member takes together are kept as a run, which its member usually acks as a whole. Any other
    call opens the messages of the runs one by one first.
    """

    def __init__(
        self,
        start: GroupPosition,
        *,
        by_key: bool = False,
        most_open: int = 100_000,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_key = by_key
        self._log = start.position.log
        self._most_open = most_open
        self._now = now
        self._begin(start)

    def _begin(self, start: GroupPosition) -> None:
        start = tidy(start)
        self._cursor = start.position.coordinates  # all before it was read
        self._acked_ahead = deque(start.acked)
        self._open: dict[Numbers, Open] = {}
        self._first: Open | None = None
        self._last: Open | None = None
        self._runs: deque[_Run] = deque()  # the messages between the last open one and the cursor
        self._acked: dict[Numbers, AckedRange] = {}  # by open message: the acked range between it and the next one
        self._turns = Turns(self._open, by_key=self.by_key)
        self._ends: list[tuple[float, Numbers]] = []  # a heap, with outdated entries
        self._lost: dict[Hashable, set[Numbers]] = {}  # by member: messages lost to other members or by a seek

    # continuing --------------------------------------------------------------------------------------------

    def recall(self, known: Mapping[Numbers, Recalled], read: ReadUpcoming) -> None:
        """Restore the messages that an earlier table had handed out. Call this before handing out any."""
        now, last = self._now(), max(known)
        for each in self._new(read, _LOOK_AHEAD_MESSAGES):
            attempts, delay = known.get(each.coordinates, (0, 0.0))
            each.attempt += attempts
            self._turns.wait(each, now + delay if delay > 0 else -inf)
            if self._cursor > last:
                return

    def claim(self, member: Hashable, coordinates: Iterable[Numbers], max_processing: float | None = None) -> bool:
        """Let a member continue with messages from an earlier table. Return False if others have some of them.

        Settled and unknown messages are skipped.
        """
        self._open_runs()
        ends = inf if max_processing is None else self._now() + max_processing
        for each in filter(None, map(self._open.get, coordinates)):
            if each.member is not None or not self._turns.may_keep(member, each):
                return False
            each.attempt = max(1, each.attempt - 1)
            self._give(each, member, ends)
        return True

    # handing out -------------------------------------------------------------------------------------------

    def take(self, member: Hashable, most: int, read: ReadUpcoming, max_processing: float | None = None) -> list[Lease]:
        """Hand out up to ``most`` messages, ascending: returned ones that are due, then new ones."""
        now = self._now()
        self._expire(now)
        ends = inf if max_processing is None else now + max_processing
        if most > 1 and ends == inf and not (self.by_key or self._turns.waiting or self._acked_ahead):
            return self._take_run(member, most, read)
        self._open_runs()
        leases: list[Lease] = []
        while len(leases) < most and (each := self._turns.next(member, now)):
            self._give(each, member, ends)
            leases.append(Lease(each.coordinates, each.attempt))
        try:
            for each in self._new(read, most - len(leases)):
                if self.by_key and not self._turns.may_have(member, each):
                    self._turns.wait(each)
                    continue
                self._give(each, member, ends)
                leases.append(Lease(each.coordinates, each.attempt))
                if len(leases) == most:
                    break
        except Exception:
            # The messages that were already leased are returned; if the log stays unreadable, the next call raises.
            if not leases:
                raise
        return leases

    def _take_run(self, member: Hashable, most: int, read: ReadUpcoming) -> list[Lease]:
        came = list(read(self._cursor, min(most, self._most_open - self.open_messages)))
        if not came:
            return []
        coordinates = [at for at, _, _ in came]
        self._cursor = came[-1][2]
        self._runs.append(_Run(member, coordinates))
        if self._lost and (lost := self._lost.get(member)):
            lost.difference_update(coordinates)
        return list(map(_as_lease, zip(coordinates, repeat(1))))

    def _open_runs(self) -> None:
        """Open the messages of all runs one by one."""
        while self._runs:
            member, coordinates = self._runs.popleft()
            for at in coordinates:
                self._append(at, None).member = member

    def upcoming(self, read: ReadUpcoming, most: int) -> list[Upcoming]:
        """Return new messages that may be handed out next by ``take_new``; none if others come first."""
        if self.by_key or self._acked_ahead or self.has_waiting:
            return []
        return [Upcoming(*each) for each in read(self._cursor, min(most, self._most_open - self.open_messages))]

    def take_new(self, member: Hashable, upcoming: Upcoming, max_processing: float | None = None) -> bool:
        """Hand out this message if it is still the one to hand out next. Return whether it was."""
        if self._runs:
            self._open_runs()
        timed = max_processing is not None and max_processing < inf
        now = self._now() if timed or self._ends else 0.0
        if self._ends:
            self._expire(now)
        if upcoming.coordinates != self._cursor or self._turns.waiting or len(self._open) >= self._most_open:
            return False
        self._cursor = upcoming.behind
        self._give(
            self._append(upcoming.coordinates, upcoming.key),
            member,
            now + max_processing if timed and max_processing is not None else inf,
        )
        return True

    def _new(self, read: ReadUpcoming, most: int) -> Iterator[Open]:
        """Read and open the next messages of the log that were not acked before, as long as there is room."""
        while most > 0 and (room := self._most_open - len(self._open)):
            came = list(read(self._cursor, min(most, room)))
            if not came:
                return
            for coordinates, key, behind in came:
                if self._acked_ahead and coordinates >= self._acked_ahead[0][0]:
                    self._pass_over(read, *self._acked_ahead.popleft())
                    break
                self._cursor = behind
                yield self._append(coordinates, key)

    def _append(self, coordinates: Numbers, key: bytes | None) -> Open:
        """Open the message after the last open one."""
        self._open[coordinates] = each = Open(coordinates, key, self._last)
        if self._last is None:
            self._first = each
        else:
            self._last.following = each
        self._last = each
        return each

    def _pass_over(self, read: ReadUpcoming, first: Numbers, last: Numbers) -> None:
        """Continue after a range that was acked before, whose last message may have been removed since."""
        following = last
        for coordinates, _, after in read(last, 1):
            following = after if coordinates == last else coordinates
        self._cursor = max(self._cursor, following)
        if self._last is not None:
            self._add_acked(self._last, first, last)

    def _give(self, each: Open, member: Hashable, ends: float) -> None:
        if self.by_key or each.idle:
            self._turns.taken(each, member)
        if each.lapsed is not None and each.lapsed != member:
            self._lost.setdefault(each.lapsed, set()).add(each.coordinates)
        if self._lost and (lost := self._lost.get(member)):
            lost.discard(each.coordinates)
        each.member, each.lapsed, each.ends = member, None, ends
        if ends < inf:
            heappush(self._ends, (ends, each.coordinates))
            if len(self._ends) > 2 * len(self._open) + 1000:
                self._ends = [(other.ends, at) for at, other in self._open.items() if other.ends < inf]
                heapify(self._ends)

    # taking back -------------------------------------------------------------------------------------------

    def stop_clock(self, member: Hashable, coordinates: Numbers) -> None:
        """Let a member keep an acked message until the ack is stored, even if its time is over."""
        each = self._held(member, coordinates)
        if each is None:
            return
        if each.member is not None:
            each.ends = inf
        elif self._turns.may_keep(member, each):
            each.attempt -= 1
            self._give(each, member, inf)

    def settle(self, member: Hashable, settled: Settlement) -> int:
        """Apply the outcomes of messages. Skip messages that the member does not have, or no longer has.

        Return how many were acked too late, because another member has taken them or the group was moved.
        """
        acked = self._settle_runs(member, settled.acked) if self._runs else settled.acked
        if not acked and not settled.returned:
            return 0
        self._open_runs()
        now, late = self._now(), 0
        if self._ends:
            self._expire(now)
        lost, find = self._lost.get(member, set()), self._open.get
        for coordinates in acked:
            each = find(coordinates)
            if each is not None and (each.member == member or each.lapsed == member):
                if self.by_key and each.member is not None:
                    self._turns.freed(each)
                self._close(each)
            elif coordinates in lost:
                lost.remove(coordinates)
                late += 1
        for coordinates, delay in settled.returned:
            if each := self._held(member, coordinates):
                due = now + delay if delay > 0 else -inf
                if each.member is None:
                    each.lapsed = None
                    self._turns.wait(each, due)
                else:
                    self._return(each, due)
        return late

    def _settle_runs(self, member: Hashable, acked: Sequence[Numbers]) -> Sequence[Numbers]:
        """Ack the first runs if they are acked as a whole. Return the other acked messages."""
        while self._runs and acked:
            run = self._runs[0]
            size = len(run.coordinates)
            if run.member != member or list(acked[:size]) != run.coordinates:
                return acked
            self._runs.popleft()
            if self._last is not None:
                self._add_acked(self._last, run.coordinates[0], run.coordinates[-1])
            acked = acked[size:]
        return acked

    def settle_late(self, settled: Settlement) -> None:
        """Apply outcomes of messages that an earlier table had handed out, regardless of their current member."""
        self._open_runs()
        unread: list[AckedRange] = []
        for coordinates in settled.acked:
            if each := self._open.get(coordinates):
                if each.member is not None:
                    self._free(each)
                self._close(each)
            elif coordinates >= self._cursor:
                unread.append((coordinates, coordinates))
        if unread:
            ahead = GroupPosition(Position(self._log, self._cursor), (*self._acked_ahead, *unread))
            self._acked_ahead = deque(tidy(ahead).acked)
        for coordinates, delay in settled.returned:
            each = self._open.get(coordinates)
            if each is not None and each.member is None:
                self._turns.wait(each, self._now() + delay if delay > 0 else -inf)

    def leave(self, member: Hashable) -> None:
        """Remove a member. Its messages go to others at once."""
        self._open_runs()
        for each in list(self._open.values()):
            if each.member == member:
                self._return(each)
            elif each.lapsed == member:
                each.lapsed = None
        self._lost.pop(member, None)
        self._turns.forget(member)

    def seek(self, position: Position) -> None:
        """Continue at this position. All leases end, and acks after the position are forgotten."""
        self._open_runs()
        lost = self._lost
        for each in self._open.values():
            if (member := each.member or each.lapsed) is not None:
                lost.setdefault(member, set()).add(each.coordinates)
        self._begin(GroupPosition(position))
        self._lost = lost

    def trim(self, low: Position) -> None:
        """Count all messages before the position as acked, even leased ones, because they were removed."""
        self._open_runs()
        while (each := self._first) is not None and each.coordinates < low.coordinates:
            if each.member is not None:
                self._free(each)
            self._close(each)
        self._cursor = max(self._cursor, low.coordinates)
        while self._acked_ahead and self._acked_ahead[0][1] < self._cursor:
            self._acked_ahead.popleft()

    def _held(self, member: Hashable, coordinates: Numbers) -> Open | None:
        """Return a message that this member has, or had for too long and no other member has taken."""
        self._open_runs()
        each = self._open.get(coordinates)
        return each if each is not None and member in (each.member, each.lapsed) else None

    def _expire(self, now: float) -> None:
        """Take back messages that members had for too long."""
        while self._ends and self._ends[0][0] <= now:
            ends, at = heappop(self._ends)
            if self._ends_at(at) == ends:
                each = self._open[at]
                member = each.member
                self._return(each)
                each.lapsed = member

    def _ends_at(self, at: Numbers) -> float:
        each = self._open.get(at)
        return each.ends if each is not None else inf

    def _return(self, each: Open, due: float = -inf) -> None:
        self._free(each)
        each.attempt += 1
        self._turns.wait(each, due)

    def _free(self, each: Open) -> None:
        each.member, each.ends = None, inf
        if self.by_key:
            self._turns.freed(each)

    def _close(self, each: Open) -> None:
        """Ack a message. Add it, and its acked range, to the range of the open message before it."""
        at, before, following = each.coordinates, each.before, each.following
        del self._open[at]
        if each.idle:
            self._turns.dropped(each)
        acked = self._acked.pop(at, (at, at))
        if before is None:
            self._first = following
        else:
            before.following = following
            self._add_acked(before, at, acked[1])
        if following is None:
            self._last = before
        else:
            following.before = before

    def _add_acked(self, before: Open, first: Numbers, last: Numbers) -> None:
        """Add an acked range after an open message."""
        known = self._acked.get(before.coordinates)
        self._acked[before.coordinates] = (known[0] if known else first, last)

    # queries -----------------------------------------------------------------------------------------------

    def state(self) -> GroupPosition:
        """Return the group's position. The cost grows with the number of acked ranges."""
        return GroupPosition(Position(self._log, self.first_unacked), self.acked_ranges)

    @property
    def first_unacked(self) -> Numbers:
        """The coordinates of the group's position."""
        if self._first is not None:
            return self._first.coordinates
        return self._runs[0].coordinates[0] if self._runs else self._cursor

    @property
    def acked_ranges(self) -> tuple[AckedRange, ...]:
        """The acked ranges of the group's position. The cost grows with their number."""
        if not self._acked and not self._acked_ahead:
            return ()
        if self._acked:  # kept in order, so that the next sort is cheap
            self._acked = {before: self._acked[before] for before in sorted(self._acked)}
        return (*self._acked.values(), *self._acked_ahead)

    @property
    def open_messages(self) -> int:
        """The number of messages that were read and are not acked."""
        return len(self._open) + (sum([len(run.coordinates) for run in self._runs]) if self._runs else 0)

    def is_open(self, coordinates: Numbers) -> bool:
        """Return whether a message was read and is not acked."""
        self._open_runs()
        return coordinates in self._open

    def is_idle(self, coordinates: Numbers) -> bool:
        """Return whether a message is open and no member has it."""
        self._open_runs()
        each = self._open.get(coordinates)
        return each is not None and each.member is None

    def holds(self, member: Hashable, coordinates: Numbers) -> bool:
        """Return whether a member has this message, or had it for too long and no other member has taken it."""
        return self._held(member, coordinates) is not None

    def attempts(self, coordinates: Numbers) -> int:
        """Return how often an open message was handed out."""
        self._open_runs()
        each = self._open.get(coordinates)
        return 0 if each is None else each.attempt - (each.member is None)

    @property
    def wanted(self) -> Position:
        """The position of the first message that must still be handed out; if it was removed, it is lost."""
        first = self._turns.first
        return Position(self._log, self._cursor if first is None else first)

    @property
    def has_waiting(self) -> bool:
        """Whether an open message waits for its turn, its time or its key."""
        return self._turns.first is not None

    @property
    def is_full(self) -> bool:
        """Whether no new messages are handed out until some are acked."""
        return self.open_messages >= self._most_open

    def next_due(self) -> float | None:
        """Return when, by the table's clock, the next message becomes free by passing time; None if none does."""
        while self._ends and self._ends_at(self._ends[0][1]) != self._ends[0][0]:
            heappop(self._ends)
        soonest = min(self._ends[0][0] if self._ends else inf, self._turns.next_due(self._now()))
        return soonest if soonest < inf else None
