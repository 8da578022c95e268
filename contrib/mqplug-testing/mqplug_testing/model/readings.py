"""A consumer's reading of one log: which message may come next, and the acks of a member.

A reading has several possible points at first if its start was a time that lies among messages of unknown time; the
first delivery decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import attrs

from mqplug import Message, Position
from mqplug.spi import Latest
from mqplug_testing.model.logs import AnyStart, LogModel, Near, Places
from mqplug_testing.model.rules import check


class Hand(Enum):
    """The state of a message that a member was given."""

    OPEN = "open"
    ACKED = "acked"
    NACKED = "nacked"


@attrs.frozen
class Snapshot:
    """A group's stored position in a log: all before ``point`` is acked, and so are these rows after it."""

    point: int
    acked: frozenset[int] = frozenset()
    beyond: Position | None = None

    def first_unacked(self, log: LogModel) -> int:
        """Return the first row that is neither acked nor removed."""
        point = max(log.passed(self.point, self.beyond), log.low)
        while point in self.acked:
            point += 1
        return point

    def same(self, other: Snapshot, log: LogModel) -> bool:
        """Return whether two snapshots mean the same retained messages."""
        point = self.first_unacked(log)
        return point == other.first_unacked(log) and self.acked_after(point) == other.acked_after(point)

    def acked_after(self, point: int) -> frozenset[int]:
        """Return the acked rows after a point."""
        return frozenset(row for row in self.acked if row > point)


@attrs.define(eq=False)
class Reading:
    """The reading of one log by a consumer without a group. A member's reading adds acks."""

    log: LogModel
    points: frozenset[int]
    lenient: bool = False
    beyond: Position | None = None
    paused: bool = False
    fresh: bool = False  # whether nothing came since a start that is never lost, or may be passed over
    rule: str = "order"  # that says what comes next
    failed: bool = False  # whether a receive reported messages as lost, and acks may have no effect until a seek

    @classmethod
    def at(cls, log: LogModel, start: AnyStart, *, lenient: bool) -> Reading:
        """Return a reading that begins at this start."""
        reading = cls(log, frozenset(), lenient)
        reading.move(start, lenient=lenient)
        return reading

    def move(self, start: AnyStart, *, lenient: bool) -> None:
        """Continue at this start."""
        places = self.log.places(start, lenient=lenient)
        self.points, self.beyond, self.failed = places.begins, places.beyond, False
        self.fresh = lenient or not isinstance(start, Near | Position)
        self.rule = "seek" if isinstance(start, Near) else "latest" if isinstance(start, Latest) else "order"

    def _next(self) -> frozenset[int]:
        return frozenset(self.log.passed(point, self.beyond) for point in self.points)

    def may_come(self, now: float) -> frozenset[int]:
        """Return the rows of which one may be delivered next.

        Messages that were fetched before they were removed may still come, in order.
        """
        if self.paused:
            return frozenset()
        points = set(self._next())
        if (self.lenient or self.fresh) and min(points) < self.log.low:
            points.add(self._after_gap())
        return frozenset(point for point in points if point < self.log.end)

    def _after_gap(self) -> int:
        """Return the first row that comes after a gap."""
        return self.log.low

    def may_be_lost(self) -> bool:
        """Return whether a receive may raise ``PositionLost``, as each does until a seek, whatever is paused."""
        low = self.log.low + self.log.gap_before_low
        return not self.lenient and any(point < low for point in self._next())

    def must_come(self) -> bool:
        """Return whether a receive that waits gets a message, or the error that one was removed."""
        low, end = self.log.low, self.log.end
        if self.paused or self.log.deleted:
            return not self.paused  # an error must come
        nothing_left = (self.lenient or self.fresh) and low == end
        return all(point < end and not nothing_left for point in self._next())

    def deliver(self, row: int, message: Message, now: float) -> None:
        """Take the next message."""
        allowed = self.may_come(now)
        check(row in allowed, "pause" if self.paused else self.rule, self._named(allowed), repr(message))
        check(message.attempt == 1, "again", "attempt 1", f"attempt {message.attempt} of {message!r}")
        self.points, self.beyond, self.fresh = frozenset({row + 1}), None, False
        self.rule = "order"

    def _named(self, rows: frozenset[int]) -> str:
        return " or ".join(self.log.name(row) for row in sorted(rows)) or "nothing of this partition"

    def position_places(self) -> Places:
        """Return where the position of the next message may be."""
        points = self._next()
        if (self.lenient or self.fresh) and min(points) < self.log.low:
            return Places(points=points | set(range(min(points), self.log.low + 1)) | {self._after_gap()})
        return Places(points=points)


@attrs.define(eq=False, kw_only=True)
class Work(Reading):
    """A member's reading of a log that it holds."""

    base: Snapshot
    hands: dict[int, Hand] = attrs.field(factory=dict)
    passed_rows: set[int] = attrs.field(factory=set)  # rows in a gap that was skipped
    attempts: dict[int, int] = attrs.field(factory=dict)
    due: dict[int, float] = attrs.field(factory=dict)  # of nacked rows
    given_back: list[int] = attrs.field(factory=list)  # by aborted transactions; they come first, and block nothing
    void: set[int] = attrs.field(factory=set)  # acked rows that were delivered before a transaction was aborted
    loose: bool = False  # whether hand-overs are not reported
    by_entry: bool = False  # whether acked messages come again with others that were sent together with them

    @classmethod
    def begun(cls, log: LogModel, states: Sequence[Snapshot], *, lenient: bool, loose: bool, by_entry: bool) -> Work:
        """Return the work of a member that begins at one of the states that may be stored."""
        base = states[0]
        return cls(
            log,
            frozenset(each.point for each in states),
            lenient,
            base.beyond,
            base=base,
            loose=loose,
            by_entry=by_entry,
        )

    def _next(self) -> frozenset[int]:
        return frozenset(self._unacked_from(point) for point in super()._next())

    def _after_gap(self) -> int:
        return self._unacked_from(self.log.low)

    def _unacked_from(self, point: int) -> int:
        while point in self.base.acked:
            point += 1
        return point

    @property
    def blocking(self) -> list[int]:
        """The nacked rows that are not acked yet, in order; the first of them blocks the partition."""
        return sorted(row for row in self.due if self.hands[row] is not Hand.ACKED)

    @property
    def returning(self) -> list[int]:
        """The rows that an aborted transaction gave back, and that did not come again yet."""
        return [row for row in self.given_back if self.hands[row] is Hand.NACKED]

    def give_back(self) -> None:
        """Give all messages in hand back, as an aborted transaction does."""
        rows = {row for row, hand in self.hands.items() if hand is Hand.OPEN}
        self.given_back = sorted(rows | set(self.returning))
        if rows:  # an ack of another message of these deliveries changes nothing any more
            self.void |= {row for row, hand in self.hands.items() if hand is Hand.ACKED}
        self.hands |= dict.fromkeys(rows, Hand.NACKED)

    def may_come(self, now: float) -> frozenset[int]:
        if self.returning and not self.paused:
            return frozenset(self.returning[:1])
        if self.blocking and not self.paused:
            first = self.blocking[0]
            waits = self.hands[first] is Hand.NACKED
            return frozenset({first} if waits and self.due[first] <= now else ())
        return super().may_come(now) | (frozenset() if self.paused else self._again())

    def _again(self) -> frozenset[int]:
        """Return the acked rows that may come again before the next unacked one."""
        if not self.by_entry:
            return frozenset()
        begins = self.points if self.hands else {self._entry(point) for point in self.points}
        return frozenset(row for point in begins for row in range(point, self._unacked_from(max(self.points))))

    def _entry(self, row: int) -> int:
        """Return the first of several rows that were sent together, of which the one before this row is one."""
        ids = [each.id.coordinates[:-1] for each in self.log.stored]
        together = [each for each in range(self.log.end) if row > 0 and ids[each] == ids[row - 1]]
        return together[0] if len(together) > 1 else row

    def must_come(self) -> bool:
        if self.returning and not self.paused:
            return not self.log.deleted
        if self.blocking and not self.paused:
            return not self.log.deleted and self.hands[self.blocking[0]] is Hand.NACKED
        return super().must_come()

    def deliver(self, row: int, message: Message, now: float) -> None:
        anew = self.loose and message.attempt == 1 and row == self.snapshot().first_unacked(self.log)
        if anew and row not in self.may_come(now):
            self._restart(row)
        if not (self.blocking or self.returning):
            for before in self.points:
                self.passed_rows |= set(range(before, row)) - self.hands.keys() - self.base.acked
            super().deliver(row, message, now)
            self.attempts[row] = 1
        else:
            allowed = self.may_come(now)
            rule = "pause" if self.paused else "nack-blocks"
            check(row in allowed, rule, self._named(allowed), repr(message))
            wanted = self.attempts[row] + 1
            check(message.attempt == wanted, "nack", f"attempt {wanted}", f"attempt {message.attempt} of {message!r}")
            self.attempts[row] = wanted
        self.hands[row] = Hand.OPEN

    def _restart(self, row: int) -> None:
        """Begin again at the first unacked message, as after an unreported hand-over."""
        acked = {each for each, hand in self.hands.items() if hand is Hand.ACKED}
        self.base = Snapshot(row, frozenset(acked | self.base.acked))
        self.points, self.beyond = frozenset({row}), None
        self.hands, self.due, self.given_back, self.void = {}, {}, [], set()

    def move(self, start: AnyStart, *, lenient: bool) -> None:
        super().move(start, lenient=lenient)
        (point,) = self.points
        self.base = Snapshot(point, frozenset(), self.beyond)
        self.hands, self.due, self.passed_rows, self.given_back, self.void = {}, {}, set(), [], set()

    # acks --------------------------------------------------------------------------------------------------

    def ack(self, row: int) -> bool:
        """Ack a message. Return whether that changed anything."""
        if self.hands.get(row) is not Hand.OPEN:
            return False
        self.hands[row] = Hand.ACKED
        return True

    def ack_all(self) -> None:
        """Ack all messages in hand."""
        self.hands |= {row: Hand.ACKED for row, hand in self.hands.items() if hand is Hand.OPEN}

    def ack_through(self, row: int) -> None:
        """Ack all messages in hand up to this one."""
        for each in self.hands:
            if each <= row:
                self.hands[each] = Hand.ACKED

    def nack(self, row: int, due: float) -> bool:
        """Nack a message. Return whether that changed anything."""
        if self.hands.get(row) is not Hand.OPEN:
            return False
        self.hands[row] = Hand.NACKED
        self.due[row] = due
        return True

    def snapshot(self) -> Snapshot:
        """Return what a commit stores now."""
        acked = {row for row, hand in self.hands.items() if hand is Hand.ACKED} | self.passed_rows
        point = self.base.point
        known = acked | self.base.acked
        if acked:
            while point in known or (point < self.log.end and self._is_beyond(point)):
                point += 1
        beyond = self.base.beyond if point == self.base.point else None
        return Snapshot(point, frozenset(row for row in known if row > point), beyond)

    def snapshots(self) -> list[Snapshot]:
        """Return what a hand-over stores. A member that passes over gaps may have done so unseen."""
        state = self.snapshot()
        if self.passed_rows:
            # The position may be right after the gap, and the acked messages there acked ones after it.
            return [state, Snapshot(self.log.low, state.acked | frozenset(range(self.log.low, state.point)))]
        if not (self.lenient or self.fresh) or min(self._next()) >= self.log.low:
            return [state]
        return [state, Snapshot(self.log.low, state.acked)]

    def _is_beyond(self, row: int) -> bool:
        beyond = self.base.beyond
        return beyond is not None and not beyond.precedes(self.log.stored[row].id)

    def position_places(self) -> Places:
        waiting = self.returning or [row for row in self.blocking if self.hands[row] is Hand.NACKED]
        if waiting:
            return Places(points=frozenset(waiting[:1]))
        exact = self._next()
        after_last = max(self.hands, default=None)
        if after_last is None or min(exact) < self.log.low:
            points = super().position_places().points | self.points | self._again()
            passes = after_last is None and self.lenient and self.log.low in points  # a gap, but perhaps not yet
            return Places(points=points | frozenset(range(self.log.low) if passes else ()))
        return Places(points=frozenset(range(after_last + 1, max(exact) + 1)) | exact | self.points)
