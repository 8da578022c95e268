"""Who holds which log of a group, among members that live in one process.

A log moves only when its holder has released it, so no two members ever hold one at once. Moves are few: a
member keeps what it has as long as that is balanced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from mqplug._log import Log


class Roster:
    """The members of one group. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seats: list[Seat] = []

    def join(self, logs: Iterable[Log], wake: Callable[[], None]) -> Seat:
        """Add a member that reads these logs; ``wake`` tells it to look at its changes."""
        seat = Seat(self, frozenset(logs), wake)
        with self._lock:
            self._seats.append(seat)
            self._plan()
        self._wake_others(seat)
        return seat

    def __len__(self) -> int:
        return len(self._seats)

    def holds(self, log: Log) -> bool:
        """Whether any member has this log now."""
        with self._lock:
            return any(log in seat.held for seat in self._seats)

    def _plan(self) -> None:
        plan = assign({seat: (seat.wanted, seat.held) for seat in self._seats})
        for seat, logs in plan.items():
            seat.planned = frozenset(logs)

    def _changes(self, seat: Seat) -> tuple[list[Log], list[Log]]:
        with self._lock:
            leaving = sorted(seat.held - seat.planned, key=_order)
            busy = {log for other in self._seats if other is not seat for log in other.held}
            taken = sorted(seat.planned - seat.held - busy, key=_order)
            seat.held |= set(taken)
            return leaving, taken

    def _release(self, seat: Seat, logs: Iterable[Log]) -> None:
        with self._lock:
            seat.held -= set(logs)
        self._wake_others(seat)

    def _leave(self, seat: Seat) -> None:
        with self._lock:
            if seat not in self._seats:
                return
            self._seats.remove(seat)
            seat.held = set()
            self._plan()
        self._wake_others(seat)

    def _wake_others(self, seat: Seat) -> None:
        for other in list(self._seats):
            if other is not seat:
                other.wake()


class Seat:
    """One member's place in a roster."""

    def __init__(self, roster: Roster, wanted: frozenset[Log], wake: Callable[[], None]) -> None:
        self._roster = roster
        self.wanted = wanted
        self.wake = wake
        self.held: set[Log] = set()
        self.planned: frozenset[Log] = frozenset()

    def changes(self) -> tuple[list[Log], list[Log]]:
        """Logs to give up (then call ``release``), and logs that are this member's from now on."""
        if self.held == self.planned:
            return [], []
        return self._roster._changes(self)

    def release(self, logs: Iterable[Log]) -> None:
        """Give logs up, once their positions are stored."""
        self._roster._release(self, logs)

    def leave(self) -> None:
        """Give up the place and all that it holds."""
        self._roster._leave(self)


def assign(members: Mapping[Seat, tuple[frozenset[Log], set[Log]]]) -> dict[Seat, set[Log]]:
    """Share logs out evenly: each member has (what it wants, what it holds), and keeps what it can."""
    shares: dict[Seat, set[Log]] = {seat: set(held & wanted) for seat, (wanted, held) in members.items()}
    wants = {seat: wanted for seat, (wanted, _) in members.items()}
    placed = set().union(*shares.values()) if shares else set()
    everything = set().union(*wants.values()) if wants else set()
    for log in sorted(everything - placed, key=_order):
        takers = [seat for seat in shares if log in wants[seat]]
        shares[min(takers, key=lambda seat: len(shares[seat]))].add(log)
    while _move_one(shares, wants):
        pass
    return shares


def _move_one(shares: dict[Seat, set[Log]], wants: Mapping[Seat, frozenset[Log]]) -> bool:
    """Move one log from a member to another that wants it and has at least two fewer; False when there is none."""
    for giver in sorted(shares, key=lambda seat: -len(shares[seat])):
        for taker in sorted(shares, key=lambda seat: len(shares[seat])):
            if len(shares[giver]) - len(shares[taker]) < 2:
                break
            movable: Sequence[Log] = sorted(shares[giver] & wants[taker], key=_order)
            if movable:
                shares[giver].remove(movable[-1])
                shares[taker].add(movable[-1])
                return True
    return False


def _order(log: Log) -> tuple[str, int, str]:
    return log.topic, log.partition, log.incarnation
