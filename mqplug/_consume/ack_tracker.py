"""The position and acks of a group in one log, derived from its deliveries and its nacked messages."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter

from mqplug._consume.delivery import ACKED, OPEN, PENDING, Decide, Delivery, PassedTracker, StillHolds, nothing
from mqplug._consume.retries import NackedMessages
from mqplug._model.batch import Batch, empty_batch
from mqplug._model.id_text import Numbers
from mqplug._model.ids import MessageId
from mqplug._model.position import Position
from mqplug.spi._actions import GroupPosition
from mqplug.spi.groups._leases import tidy

_WITH_PENDING = bytes.maketrans(bytes((PENDING,)), bytes((ACKED,)))
_UNACKED = re.compile(b"[^%c]" % ACKED, re.DOTALL)
_ACKED_RUN = re.compile(b"%c+" % ACKED)
_FIRST = itemgetter(0)


class Tracker:
    """The deliveries and acks of one log in one epoch. Without a group, no unacked deliveries are kept."""

    def __init__(self, owner: object, start: GroupPosition, *, keeps: bool) -> None:
        self.owner = owner  # distinguishes this consumer's messages from another's
        self.log = start.position.log
        self._position = start.position
        self._restored = tidy(start).acked
        self._keeps = keeps
        self._deliveries: deque[Delivery] = deque()
        self.kept = 0  # messages of all deliveries, an upper bound of the unsettled ones
        self.returned = NackedMessages()
        self.dirty = False
        self.awaited = False  # whether an ack here allows more to be handed out
        self._aborted = False  # whether a transaction gave back all unacked messages
        self._pending = self._taken = 0  # acks of an uncommitted transaction: made, and taken by it
        self.ranges = 0  # number of acked ranges in the last state
        self.folds = False  # whether to drop acked messages after an unacked one, which may stay unacked for long
        # The delivery of all messages that were acked and forgotten.
        self.passed = nothing(start.position, PassedTracker(owner))

    def without_acked(self, batch: Batch) -> Batch:
        """Return the batch without the messages that the group had acked before it was opened."""
        if not self._restored:
            return batch
        rows = [index for index, coordinates in enumerate(batch.coordinates) if not self._was_acked(coordinates)]
        return batch if len(rows) == len(batch) else batch.take(rows, batch.next_position)

    def _was_acked(self, coordinates: Numbers) -> bool:
        """Return whether a restored range has this message. There may be a hundred thousand ranges."""
        following = bisect_right(self._restored, coordinates, key=_FIRST)
        return following > 0 and coordinates <= self._restored[following - 1][1]

    def deliver(self, batch: Batch, still_holds: StillHolds | None = None) -> Delivery:
        """Begin to hand out a batch."""
        if not self._keeps:
            self._forget_exhausted()
        delivery = Delivery(batch, self, still_holds=still_holds)
        self.kept += len(delivery.flags)
        self._deliveries.append(delivery)
        self.dirty |= self._keeps and not delivery.flags
        return delivery

    @property
    def latest(self) -> Delivery | None:
        """The last delivery."""
        try:
            return self._deliveries[-1]
        except IndexError:  # no check before: another thread may forget the last delivery after it
            return None

    def drop(self) -> None:
        """Invalidate all deliveries."""
        for delivery in list(self._deliveries):
            delivery.drop()
        for again in self.returned:
            if (present := again.present) is not None:
                present.drop()

    def release(self) -> None:
        """Forget all (dropped) deliveries. Batches refer to them, so breaking the cycle frees them at once."""
        gone = nothing(self._position, self)
        for delivery in self._deliveries:
            delivery.part_from_batch(gone)
        self._deliveries = deque()
        self.returned.release(gone)

    def find(self, message_id: MessageId) -> tuple[Delivery, int] | None:
        """Return the live delivery and row of a message that was handed out, or None."""
        wanted = message_id.coordinates
        for again in self.returned:
            if again.present is not None and again.coordinates == wanted:
                return again.present, 0
        for delivery in list(self._deliveries):
            if (row := delivery.row_of(wanted)) is not None:
                return delivery, row
            if delivery.folded and delivery.batch.coordinates[0] < wanted < delivery.batch.coordinates[1]:
                return delivery, 0
        return None

    def has_acked(self, message_id: MessageId) -> bool:
        """Return whether this message and all before it are acked."""
        self._advance()
        return not self._position.precedes(message_id)

    def ack_pending(self, delivery: Delivery, row: int) -> None:
        """Ack a message in a transaction."""
        delivery.flags[row] = PENDING
        if delivery.again is not None:
            delivery.again.pending = True
        self._pending += 1

    def ack_through_pending(self, delivery: Delivery, index: int) -> None:
        """Ack all messages handed out up to and including this row, in a transaction."""
        for again in self.returned:
            if again.coordinates <= delivery.batch.coordinates[index]:
                again.pending = True
                if again.present is not None:
                    again.present.flags[0] = PENDING
        origin, last = (delivery.again.delivery, delivery.again.row) if delivery.again else (delivery, index)
        if origin not in self._deliveries:
            return  # it is acked and forgotten, with all before it
        for earlier in list(self._deliveries):
            _replace(earlier.flags, OPEN, PENDING, last + 1 if earlier is origin else len(earlier.flags))
            if earlier is origin:
                break
        self._pending += 1

    def ack_through(self, delivery: Delivery, index: int) -> None:
        """Ack all messages handed out up to and including this row."""
        for again in list(self.returned):
            if again.coordinates <= delivery.batch.coordinates[index]:
                self.returned.forget(again)
        origin, last = (delivery.again.delivery, delivery.again.row) if delivery.again else (delivery, index)
        if origin not in self._deliveries:
            return  # it is acked and forgotten, with all before it
        for earlier in list(self._deliveries):
            rows = last + 1 if earlier is origin else len(earlier.flags)
            earlier.flags[:rows] = bytes((ACKED,)) * rows
            if earlier is origin:
                break
        self.dirty = True

    def give_back(self, delivery: Delivery, row: int, delay: float) -> None:
        """Deliver a nacked message again after ``delay`` seconds. Later messages wait for it."""
        self.returned.give_back(delivery, row, delay)

    def take_back(self, delivery: Delivery, row: int) -> None:
        """Deliver a message again that was handed out but reached no handler. This attempt does not count."""
        self.returned.give_back(delivery, row, 0, attempts=0)

    def withholds(self, coordinates: Numbers) -> bool:
        """Return whether this is a nacked message that is not settled yet."""
        return any(each.coordinates == coordinates for each in self.returned)

    def set_aside(self, delivery: Delivery, row: int) -> Decide:
        """Withhold a message. Return the function that later acks it, or makes it due again."""
        again = self.returned.give_back(delivery, row, math.inf)

        def decide(delay: float | None) -> None:
            if delay is None:
                self.returned.forget(again)
                self.dirty = True
            else:
                self.returned.set_due(again, delay)

        return decide

    @property
    def position(self) -> Position:
        """The position of the next message that would be handed out."""
        if self._aborted:
            return self._first_given_back
        for again in self.returned:
            if again.present is None:
                return Position(self._position.log, again.coordinates)
        latest = self.latest
        return latest.position if latest is not None else self._position

    @property
    def _first_given_back(self) -> Position:
        for delivery in list(self._deliveries):
            if (row := _first_unacked(bytes(delivery.flags))) < len(delivery.flags):
                return Position(self._position.log, delivery.batch.coordinates[row])
        return self.end

    @property
    def first_unacked(self) -> Position:
        """The position before which all is acked; without a group, the end of the last delivery."""
        return self.state().position if self._keeps else self.end

    @property
    def end(self) -> Position:
        """The end of the last delivery."""
        latest = self.latest
        return latest.end if latest is not None else self._position

    @property
    def unsettled(self) -> int:
        """The number of messages that were handed out and are not acked."""
        return sum(delivery.unsettled for delivery in list(self._deliveries)) + self.returned.unsettled

    @property
    def oldest(self) -> MessageId | None:
        """The first message that was handed out and is not acked. The stored position cannot pass it."""
        self._advance()
        first = next(iter(self._deliveries), None)
        if first is None:
            return None
        row = _first_unacked(bytes(first.flags))
        return first.batch.id(row) if row < first.handed_out else None

    def state(self) -> GroupPosition:
        """Return the position before which all is acked, and the acked ranges after it."""
        self._advance()
        ranges = [each for each in self._restored if each[1] >= self._position.coordinates]
        deliveries = list(self._deliveries)  # the receiving thread may append during the scan
        ranges += _acked_ranges([(bytes(each.flags), each.batch) for each in deliveries])
        state = tidy(GroupPosition(self._position, tuple(sorted(ranges))))
        self.ranges = len(state.acked)
        return state

    def take_step(self) -> GroupPosition:
        """Return the state that a transaction stores: that of ``take_change`` plus its own acks, which it can undo."""
        self.dirty = False
        self._taken = self._pending
        self._advance()
        position, rows = self._position, [(self._flags_with_pending(each), each) for each in list(self._deliveries)]
        for flags, delivery in rows:
            first = _first_unacked(flags)
            if first < len(flags):
                position = Position(position.log, delivery.batch.coordinates[first]) if first else position
                break
            position = delivery.end
        ranges = [each for each in self._restored if each[1] >= position.coordinates]
        ranges += _acked_ranges([(flags, delivery.batch) for flags, delivery in rows])
        later = [each for each in ranges if each[1] >= position.coordinates]
        return tidy(GroupPosition(position, tuple(sorted(later))))

    def _flags_with_pending(self, delivery: Delivery) -> bytes:
        flags = delivery.flags.translate(_WITH_PENDING)
        for again in self.returned:
            if again.pending and again.delivery is delivery:
                flags[again.row] = ACKED
        return bytes(flags)

    def settle_step(self) -> None:
        """Turn the acks of a committed transaction into acks. Later ones are not stored yet."""
        self.dirty |= self._taken != self._pending
        for delivery in list(self._deliveries):
            _replace(delivery.flags, PENDING, ACKED, len(delivery.flags))
        for again in self.returned:
            if again.pending:
                self.returned.forget(again)

    def drop_step(self) -> None:
        """Forget the acks of an aborted transaction, and end all deliveries, so that acks of them are late."""
        self._aborted = True
        self.drop()
        for delivery in list(self._deliveries):
            _replace(delivery.flags, PENDING, OPEN, len(delivery.flags))
        for again in self.returned:
            if again.pending:
                again.pending = False
                if again.present is not None:
                    again.present.flags[0] = OPEN

    def unacked(self) -> list[Batch]:
        """Return the unacked messages, to be delivered again. For those handed out, the attempt count rises by one.

        An empty batch stands for an acked delivery.
        """
        nacked = {(id(each.delivery), each.row): each for each in self.returned}
        batches: list[Batch] = []
        for delivery in self._deliveries:
            rows = [row for row, flag in enumerate(delivery.flags) if flag != ACKED]
            handed_out, attempts = delivery.handed_out, []
            for row in rows:
                again = nacked.get((id(delivery), row))
                if again is None:
                    attempts.append(delivery.batch.attempts[row] + (row < handed_out))
                else:
                    attempts.append(again.attempt + (again.present is not None))
            rest = delivery.batch.take(rows, delivery.end).with_attempts(attempts)
            batches.append(rest if rows else empty_batch(delivery.end))
        return batches

    def take_change(self) -> GroupPosition:
        """Return the state to store now."""
        self.dirty = False
        return self.state()

    def put_back(self) -> None:
        """Mark the taken state as not stored."""
        self.dirty = True

    def release_settled(self) -> None:
        """Forget the settled deliveries. ``committing`` is held."""
        if self._keeps:
            self._forget_acked()
        else:
            self._forget_exhausted()

    def _advance(self) -> None:
        self._forget_acked()
        if self.folds:
            self._fold()

    def _forget_acked(self) -> None:
        self.returned.settle()
        while self._deliveries:
            delivery = self._deliveries[0]
            first = _first_unacked(bytes(delivery.flags))
            if first < len(delivery.flags):
                if first > 0:
                    self._position = Position(delivery.batch.log, delivery.batch.coordinates[first])
                return
            self._forget_first()

    def _fold(self) -> None:
        """Drop the messages of adjacent, fully acked deliveries. Only their range is needed."""
        into: Delivery | None = None
        for delivery in list(self._deliveries)[1:-1]:
            if _first_unacked(bytes(delivery.flags)) < len(delivery.flags):
                into = None
            elif into is not None:
                self._deliveries.remove(delivery)
                self.kept -= len(delivery.batch)
                into.fold(delivery, self.passed)
            elif delivery.flags:
                into = delivery
                self.kept -= len(delivery.batch)
                into.fold(delivery, self.passed)
                self.kept += len(into.batch)

    def _forget_exhausted(self) -> None:
        while self._deliveries and not self._deliveries[0].left:
            self._forget_first()

    def _forget_first(self) -> None:
        delivery = self._deliveries[0]
        self._position = delivery.end  # first: other threads read it without a lock
        self._deliveries.popleft()
        self.kept -= len(delivery.batch)
        delivery.part_from_batch(self.passed)


def _replace(flags: bytearray, old: int, new: int, end: int) -> None:
    """Replace a state in the first rows, row by row, because another thread may ack at the same time."""
    row = flags.find(old, 0, end)
    while row >= 0:
        flags[row] = new
        row = flags.find(old, row + 1, end)


def _first_unacked(flags: bytes) -> int:
    """Return the first unacked row; the number of rows if all are acked."""
    found = _UNACKED.search(flags)
    return found.start() if found else len(flags)


def _acked_ranges(deliveries: Sequence[tuple[bytes, Batch]]) -> list[tuple[Numbers, Numbers]]:
    """Return the ranges of acked messages. A range that reaches the end of a delivery continues in the next."""
    ranges: list[tuple[Numbers, Numbers]] = []
    continues = False
    for flags, batch in deliveries:
        if not flags:
            continue
        coordinates, end = batch.coordinates, 0
        for run in _ACKED_RUN.finditer(flags):
            first = ranges.pop()[0] if continues and not run.start() else coordinates[run.start()]
            end = run.end()
            ranges.append((first, coordinates[end - 1]))
        continues = end == len(flags)
    return ranges
