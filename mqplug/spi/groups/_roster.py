"""The roster: which member of a group holds which log, among members in one process.

A log moves only after its holder has released it, so two members never hold one at once. Moves are few: a member keeps
its logs while they are balanced. In the modes ``shared`` and ``key_shared`` all members hold all logs that they read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from threading import Lock

import attrs

from mqplug._model.errors import ConsumerBusy
from mqplug._model.log import GroupMember, Log
from mqplug.spi._actions import SHARED_MODES, Mode

_member_numbers = count(1)


def member_name(process: int | None) -> str:
    """Return a new name for a member of this process, which has the process id, or None if that is unknown."""
    return f"pid-{process}-{next(_member_numbers)}" if process else f"member-{next(_member_numbers)}"


class Roster:
    """The members of one group. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seats: list[Seat] = []
        self._mode: Mode = "ordered"

    def join(
        self,
        logs: Iterable[Log],
        wake: Callable[[], None],
        mode: Mode = "ordered",
        *,
        name: str | None = None,
        host: str | None = None,
    ) -> Seat:
        """Add a member that reads these logs. Raises ``ConsumerBusy`` if its mode excludes it.

        Members in another mode exclude it, and so does any member if its mode is ``exclusive``.

        :param logs: the logs that it reads.
        :param wake: called to make it read its ``changes``.
        :param mode: the mode of the group; ``"ordered"`` by default.
        :param name: its name in ``members``; by default a new name of a member of this process.
        :param host: its host in ``members``; None by default.
        """
        seat = Seat(self, frozenset(logs), wake, GroupMember(name or member_name(os.getpid()), host))
        with self._lock:
            self._admit(mode)
            self._seats.append(seat)
            self._plan()
        self._wake_others(seat)
        return seat

    def extend(self, known: Log, added: Iterable[Log]) -> None:
        """Add partitions of a topic: members that read its log ``known`` also read the added ones."""
        more = frozenset(added)
        with self._lock:
            seats = list(self._seats)
            for seat in seats:
                seat.wanted |= more if known in seat.wanted else frozenset()
            self._plan()
        for seat in seats:
            seat.wake()

    def _want(self, seat: Seat, logs: Iterable[Log]) -> None:
        with self._lock:
            seat.wanted = frozenset(logs)
            self._plan()
        for each in list(self._seats):
            each.wake()

    def __len__(self) -> int:
        return len(self._seats)

    def members(self) -> tuple[GroupMember, ...]:
        """Return the members, with the logs that each currently holds."""
        with self._lock:
            return tuple(attrs.evolve(each.member, logs=tuple(sorted(each.held, key=_order))) for each in self._seats)

    def wanted(self) -> frozenset[Log]:
        """Return the logs that members read, including logs that none of them holds yet."""
        with self._lock:
            return frozenset().union(*(each.wanted for each in self._seats))

    @property
    def mode(self) -> Mode:
        """The mode of its members, or of its last ones."""
        return self._mode

    @property
    def moving(self) -> bool:
        """Whether a log is on its way from one member to another, or to its first."""
        with self._lock:
            return any(seat.held != seat.planned for seat in self._seats)

    def holds(self, log: Log) -> bool:
        """Return whether any member currently has this log."""
        with self._lock:
            return any(log in seat.held for seat in self._seats)

    def _admit(self, mode: Mode) -> None:
        if self._seats and mode != self._mode:
            raise ConsumerBusy(
                f"a member in mode {mode!r} cannot join the group, which has members in mode {self._mode!r}"
            )
        if self._seats and mode == "exclusive":
            raise ConsumerBusy("the group is exclusive and already has its only member")
        self._mode = mode

    @property
    def _shared(self) -> bool:
        return self._mode in SHARED_MODES

    def _plan(self) -> None:
        plan = assign({seat: (seat.wanted, seat.held) for seat in self._seats}) if not self._shared else {}
        for seat in self._seats:
            seat.planned = frozenset(plan.get(seat, seat.wanted))

    def _changes(self, seat: Seat) -> tuple[list[Log], list[Log]]:
        with self._lock:
            leaving = sorted(seat.held - seat.planned, key=_order)
            others = [] if self._shared else [other for other in self._seats if other is not seat]
            busy = {log for other in others for log in other.held}
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
    """One member's seat in a roster."""

    def __init__(self, roster: Roster, wanted: frozenset[Log], wake: Callable[[], None], member: GroupMember) -> None:
        self._roster = roster
        self.member = member
        self.wanted = wanted
        self.wake = wake
        self.held: set[Log] = set()
        self.planned: frozenset[Log] = frozenset()

    def want(self, logs: Iterable[Log]) -> None:
        """Read these logs from now on, in place of those that this member wanted so far."""
        self._roster._want(self, logs)  # noqa: SLF001

    @property
    def has_changes(self) -> bool:
        """Whether there are logs to give up or to take."""
        return self.held != self.planned

    def changes(self) -> tuple[list[Log], list[Log]]:
        """Return the logs to give up (then call ``release``), and the logs that this member now holds."""
        if self.held == self.planned:
            return [], []
        return self._roster._changes(self)  # noqa: SLF001

    def release(self, logs: Iterable[Log]) -> None:
        """Give logs up, once their positions are stored."""
        self._roster._release(self, logs)  # noqa: SLF001

    def leave(self) -> None:
        """Give up the seat and all that it holds."""
        self._roster._leave(self)  # noqa: SLF001


def assign(members: Mapping[Seat, tuple[frozenset[Log], set[Log]]]) -> dict[Seat, set[Log]]:
    """Distribute logs evenly. Each member has (the logs it wants, the logs it holds), and keeps as many as possible."""
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
    """Move one log from a member to another that wants it and has at least two fewer. Return False if there is none."""
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
