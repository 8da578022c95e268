"""Who has which message of a log that the members of a group share.

One table for each log of a group, in memory. It does no I/O and takes no lock: the backend calls it under a lock of
its own, tells it what comes next in the log, and stores ``state()`` where groups are to last.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from math import inf
from typing import NamedTuple

from mqplug._position import Position
from mqplug._text import Numbers
from mqplug.spi._actions import GroupPosition, Settlement
from mqplug.spi._positions import AckedRange, tidy


class Upcoming(NamedTuple):
    """A message of the log, as the table wants to know it: ``behind`` is the position just behind it."""

    coordinates: Numbers
    key: bytes | None
    behind: Numbers


class Lease(NamedTuple):
    """A message that a member has from now on, and which delivery of it this is, counted from 1."""

    coordinates: Numbers
    attempt: int


Read = Callable[[Numbers, int], Iterable[Upcoming]]
"""What a backend gives to ``take``: the messages at and after a position, so many at most, in order."""


class _Open:
    """A message that was read and is not acked: with a member until ``ends``, or with nobody until ``due``."""

    __slots__ = ("acked", "acked_behind", "attempt", "coordinates", "due", "ends", "key", "member")

    def __init__(self, coordinates: Numbers, key: bytes | None) -> None:
        self.coordinates = coordinates
        self.key = key
        self.attempt = 1
        self.member: Hashable | None = None
        self.ends = inf
        self.due = -inf
        self.acked = False
        self.acked_behind: AckedRange | None = None  # the run of acked messages up to the next open one


class Leases:
    """The lease table of one log.

    A message is one member's until that settles it, leaves, or has had it for ``max_processing`` seconds; what was
    not acked goes to whoever asks next, with its attempt counted. With ``by_key`` the messages of one key come in
    order, and are with one member at a time: a message that is to be delivered again holds back those behind it.

    The table keeps what is open, ``most_open`` messages at most, and one range of acked ones for each; that is about
    300 bytes a message. When so many are open, with members, put off, or held back by their keys, nothing new is handed
    out until some are acked. What a call costs grows with what it hands out and with what nobody has.
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
        self._open: dict[Numbers, _Open] = {}
        self._order: list[_Open] = []  # what is open, ascending, and some of what is acked by now
        self._idle: list[Numbers] = []  # what is open and nobody has, ascending
        self._keys: dict[bytes, tuple[Hashable, int]] = {}  # who has a key, and how many messages of it
        self._soonest_end = inf

    # handing out -------------------------------------------------------------------------------------------

    def take(self, member: Hashable, most: int, read: Read, max_processing: float | None = None) -> list[Lease]:
        """Hand out so many messages at most, ascending: returned ones that are due, then new ones."""
        now = self._now()
        self._expire(now)
        ends = inf if max_processing is None else now + max_processing
        candidates = chain([self._open[at] for at in self._idle], self._new(read, most))
        held_back: set[bytes] = set()
        leases: list[Lease] = []
        for each in candidates:
            if each.due <= now and self._may_have(member, each.key, held_back):
                self._give(each, member, ends)
                leases.append(Lease(each.coordinates, each.attempt))
                if len(leases) == most:
                    break
            elif each.key is not None:
                held_back.add(each.key)
        return leases

    def _may_have(self, member: Hashable, key: bytes | None, held_back: set[bytes]) -> bool:
        if not self.by_key or key is None:
            return True
        return key not in held_back and (key not in self._keys or self._keys[key][0] == member)

    def _new(self, read: Read, most: int) -> Iterator[_Open]:
        """Open what comes next in the log, as far as it was not acked before and there is room."""
        while room := self._most_open - len(self._open):
            came = list(read(self._cursor, min(most, room)))
            if not came:
                return
            for coordinates, key, behind in came:
                if self._acked_ahead and coordinates >= self._acked_ahead[0][0]:
                    self._pass_over(read, *self._acked_ahead.popleft())
                    break
                self._cursor = behind
                self._open[coordinates] = each = _Open(coordinates, key)
                self._order.append(each)
                self._idle.append(coordinates)
                yield each

    def _pass_over(self, read: Read, first: Numbers, last: Numbers) -> None:
        """Go on behind a range that was acked before; its last message may have been removed meanwhile."""
        behind = last
        for coordinates, _, after in read(last, 1):
            behind = after if coordinates == last else coordinates
        self._cursor = max(self._cursor, behind)
        if self._order:
            _join(self._order[-1], first, last)

    def _give(self, each: _Open, member: Hashable, ends: float) -> None:
        del self._idle[bisect_left(self._idle, each.coordinates)]
        each.member, each.ends = member, ends
        self._soonest_end = min(self._soonest_end, ends)
        if self.by_key and each.key is not None:
            self._keys[each.key] = (member, self._keys.get(each.key, (member, 0))[1] + 1)

    # taking back -------------------------------------------------------------------------------------------

    def settle(self, member: Hashable, settled: Settlement) -> None:
        """What became of messages. What the member does not have, or has no more, is passed over."""
        now = self._now()
        self._expire(now)
        for coordinates in settled.acked:
            if each := self._held(member, coordinates):
                self._let_go(each)
                self._close(each)
        for coordinates, delay in settled.returned:
            if each := self._held(member, coordinates):
                self._return(each, now + delay)

    def leave(self, member: Hashable) -> None:
        """The member is gone: others get what it had at once."""
        now = self._now()
        for each in list(self._open.values()):
            if each.member == member:
                self._return(each, now)

    def seek(self, position: Position) -> None:
        """Go on there. Nobody has anything any more, and what was acked behind it is forgotten."""
        self._begin(GroupPosition(position))

    def trim(self, low: Position) -> None:
        """What lies before was removed: it counts as acked, whoever has it."""
        for each in [each for at, each in self._open.items() if at < low.coordinates]:
            if each.member is not None:
                self._let_go(each)
            self._close(each)
        del self._idle[: bisect_left(self._idle, low.coordinates)]
        self._cursor = max(self._cursor, low.coordinates)

    def _held(self, member: Hashable, coordinates: Numbers) -> _Open | None:
        each = self._open.get(coordinates)
        return each if each is not None and each.member == member else None

    def _expire(self, now: float) -> None:
        if now < self._soonest_end:
            return
        held = [each for each in self._open.values() if each.member is not None]
        for each in held:
            if each.ends <= now:
                self._return(each, now)
        self._soonest_end = min((each.ends for each in held if each.member is not None), default=inf)

    def _return(self, each: _Open, due: float) -> None:
        self._let_go(each)
        insort(self._idle, each.coordinates)
        each.due = due
        each.attempt += 1

    def _let_go(self, each: _Open) -> None:
        each.member, each.ends = None, inf
        if self.by_key and each.key is not None:
            member, count = self._keys.pop(each.key)
            if count > 1:
                self._keys[each.key] = (member, count - 1)

    def _close(self, each: _Open) -> None:
        del self._open[each.coordinates]
        each.acked = True
        if len(self._order) > 2 * len(self._open) + 1000:
            self._forget_acked()

    def _forget_acked(self) -> None:
        """What is acked joins the acked run behind the open message before it."""
        kept: list[_Open] = []
        for each in self._order:
            if not each.acked:
                kept.append(each)
            elif kept:
                _join(kept[-1], each.coordinates, each.acked_behind[1] if each.acked_behind else each.coordinates)
        self._order = kept

    # asking ------------------------------------------------------------------------------------------------

    def state(self) -> GroupPosition:
        """Where the group stands."""
        self._forget_acked()
        at = self._order[0].coordinates if self._order else self._cursor
        behind = (each.acked_behind for each in self._order)
        acked = (*(run for run in behind if run is not None), *self._acked_ahead)
        return GroupPosition(Position(self._log, at), acked)

    def holds(self, member: Hashable, coordinates: Numbers) -> bool:
        """Whether a member has this message now."""
        return self._held(member, coordinates) is not None

    @property
    def wanted(self) -> Position:
        """The first message that is still to be handed out: where it was removed, it is lost."""
        return Position(self._log, self._idle[0] if self._idle else self._cursor)

    def next_due(self) -> float | None:
        """When, by the table's clock, time alone makes a message free that is not free now; None if it never does."""
        now = self._now()
        put_off = (each.due for at in self._idle if (each := self._open[at]).due > now)
        soonest = min(min(put_off, default=inf), self._soonest_end)
        return soonest if soonest < inf else None


def _join(before: _Open, first: Numbers, last: Numbers) -> None:
    """More is acked behind an open message."""
    before.acked_behind = (before.acked_behind[0] if before.acked_behind else first, last)
