"""What was delivered, and what of it was acked.

A delivery is a batch on its way to the caller, with one byte per message; an ack sets the byte and takes no lock.
Where a group stands is worked out when a commit is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import repeat
from operator import length_hint

from mqplug._batch import Batch, ListColumns
from mqplug._ids import MessageId
from mqplug._message import Message
from mqplug._position import Position
from mqplug._text import Numbers
from mqplug.spi._actions import GroupPosition

Ranges = tuple[tuple[Numbers, Numbers], ...]


class Delivery:
    """A batch that is being handed to the caller.

    ``messages`` runs without Python code; to end it early means to use up ``_left``, from whichever thread.
    """

    __slots__ = ("_end", "_held_back", "_left", "batch", "flags", "live", "messages", "tracker")

    def __init__(self, batch: Batch, tracker: Tracker) -> None:
        self.batch = batch
        self.tracker = tracker
        self.flags = bytearray(len(batch))
        self.live = True
        self._end = batch.next_position
        self._held_back = 0
        self._left = iter(range(len(batch)))
        self.messages: Iterator[Message] = map(Message, repeat(batch), self._left)
        batch.delivery = self

    @property
    def left(self) -> int:
        """How many messages were not handed out."""
        return length_hint(self._left) + self._held_back

    @property
    def position(self) -> Position:
        """The position of the next message that would be handed out."""
        left = self.left
        if not left:
            return self._end
        return Position(self.batch.log, self.batch.coordinates[len(self.flags) - left])

    @property
    def end(self) -> Position:
        """The position behind all of it."""
        return self._end

    def hold_back(self) -> None:
        """End the hand-out here."""
        self._held_back += length_hint(self._left)
        deque(self._left, maxlen=0)

    def drop(self) -> None:
        """This counts no more: acks of it are late, and nothing more is handed out."""
        self.live = False
        self.hold_back()

    def split(self) -> Batch:
        """Keep what was handed out; what was not becomes a batch of its own again."""
        self.hold_back()
        cut = len(self.flags) - self._held_back
        rest, self._end = self.batch[cut:], self.position
        del self.flags[cut:]
        self._held_back = 0
        return rest

    def hand_out_all(self) -> Batch:
        """Hand out the whole batch at once."""
        deque(self._left, maxlen=0)
        return self.batch


class Tracker:
    """Where a consumer stands in one log, in one epoch. Without a group nothing is kept to be acked."""

    def __init__(self, owner: object, start: GroupPosition, *, keeps: bool) -> None:
        self.owner = owner  # tells this consumer's messages from another's
        self._position = start.position
        self._restored = start.acked
        self._keeps = keeps
        self._deliveries: deque[Delivery] = deque()
        self.dirty = False
        self.passed = Delivery(_no_messages(start.position), self)  # stands for all that was acked and forgotten
        self.passed.live = False

    def without_acked(self, batch: Batch) -> Batch:
        """The batch less what the group had acked before it was opened."""
        if not self._restored:
            return batch
        rows = [
            index
            for index, coordinates in enumerate(batch.coordinates)
            if not any(first <= coordinates <= last for first, last in self._restored)
        ]
        return batch if len(rows) == len(batch) else batch.take(rows, batch.next_position)

    def deliver(self, batch: Batch) -> Delivery:
        """Begin to hand a batch out."""
        if not self._keeps:
            self._forget_exhausted()
        delivery = Delivery(batch, self)
        self._deliveries.append(delivery)
        self.dirty |= self._keeps and not len(batch)
        return delivery

    def drop(self) -> None:
        """Forget all deliveries."""
        for delivery in list(self._deliveries):
            delivery.drop()

    def find(self, message_id: MessageId) -> tuple[Delivery, int] | None:
        """Where a message was handed out, if that still counts."""
        for delivery in list(self._deliveries):
            coordinates = delivery.batch.coordinates
            index = bisect_left(coordinates, message_id.coordinates)
            delivered = len(delivery.flags) - delivery.left
            if index < delivered and coordinates[index] == message_id.coordinates:
                return delivery, index
        return None

    def has_acked(self, message_id: MessageId) -> bool:
        """Whether all up to and with this message is acked."""
        self._advance()
        return not self._position.precedes(message_id)

    def ack_through(self, delivery: Delivery, index: int) -> None:
        """Ack all that was handed out, up to and with this row."""
        for earlier in list(self._deliveries):
            last = index + 1 if earlier is delivery else len(earlier.flags)
            earlier.flags[:last] = b"\1" * last
            if earlier is delivery:
                break
        self.dirty = True

    @property
    def position(self) -> Position:
        """The position of the next message that would be handed out."""
        return self._deliveries[-1].position if self._deliveries else self._position

    def state(self) -> GroupPosition:
        """All before the position is acked, and the ranges behind it."""
        self._advance()
        ranges = [each for each in self._restored if each[1] >= self._position.coordinates]
        deliveries = list(self._deliveries)  # the receiving thread may append meanwhile
        start = deliveries[0].flags.find(0) if deliveries else 0
        for delivery in deliveries:
            ranges += _acked_ranges(delivery, start)
            start = 0
        return GroupPosition(self._position, tuple(sorted(ranges)))

    def _advance(self) -> None:
        while self._deliveries:
            delivery = self._deliveries[0]
            first = delivery.flags.find(0)
            if first > 0:
                self._position = Position(delivery.batch.log, delivery.batch.coordinates[first])
            if first >= 0:
                return
            self._position = delivery.end
            self._deliveries.popleft()

    def _forget_exhausted(self) -> None:
        while self._deliveries and not self._deliveries[0].left:
            self._position = self._deliveries.popleft().end


def _no_messages(position: Position) -> Batch:
    return Batch(position.log, position, 0, ListColumns([], [], [], [], [], []))


def _acked_ranges(delivery: Delivery, start: int) -> Iterator[tuple[Numbers, Numbers]]:
    """The runs of acked messages from a row on."""
    flags, coordinates = delivery.flags, delivery.batch.coordinates
    start = flags.find(1, start)
    while start >= 0:
        stop = flags.find(0, start)
        stop = stop if stop >= 0 else len(flags)
        yield coordinates[start], coordinates[stop - 1]
        start = flags.find(1, stop)
