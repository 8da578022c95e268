"""The messages of one log that a member of a shared group has in hand. The driver keeps the group's position."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mqplug._consume.delivery import ACKED, RETURNED, STORED, Decide, Delivery, PassedTracker, StillHolds, nothing
from mqplug._model.batch import Batch
from mqplug._model.errors import Unsupported
from mqplug._model.id_text import Numbers
from mqplug._model.ids import MessageId
from mqplug._model.position import Position
from mqplug.spi._actions import GroupPosition, Settlement

if TYPE_CHECKING:
    from mqplug.spi._drivers import Offer

REMEMBERED_MESSAGES = 10_000  # ids of settled messages, so that a repeated ack is late instead of an error


class SharedTracker:
    """The unsettled deliveries of one shared log in one epoch."""

    def __init__(self, owner: object, start: GroupPosition) -> None:
        self.owner = owner
        self.dirty = False
        self.awaited = False
        self.ranges = 0
        self.oldest: MessageId | None = None  # no message blocks others here
        self._deliveries: dict[int, Delivery] = {}
        self._returned: deque[tuple[Numbers, float]] = deque()  # nacked messages, which any thread may add
        self._taken = Settlement()
        self._owed: list[Numbers] = []  # acks that could not be stored yet
        self._settled: deque[Numbers] = deque(maxlen=REMEMBERED_MESSAGES)
        self._start = start.position
        self.passed = nothing(start.position, PassedTracker(owner))

    def without_acked(self, batch: Batch) -> Batch:
        """Return the batch itself: the driver hands out no acked messages."""
        return batch

    def deliver(self, batch: Batch, still_holds: StillHolds | None = None, *, offer: Offer | None = None) -> Delivery:
        """Begin to hand out a batch, which may be offered."""
        delivery = Delivery(batch, self, None, still_holds, offer)
        if len(batch):
            self._deliveries[id(delivery)] = delivery
        return delivery

    @property
    def latest(self) -> Delivery | None:
        """The last delivery."""
        return next(reversed(list(self._deliveries.values())), None)

    def drop(self) -> None:
        """Invalidate all deliveries."""
        for delivery in list(self._deliveries.values()):
            delivery.drop()

    def release(self) -> None:
        """Forget all (dropped) deliveries. Batches refer to them, so breaking the cycle frees them at once."""
        gone = nothing(self._start, self)
        deliveries, self._deliveries = self._deliveries, {}
        for delivery in deliveries.values():
            delivery.part_from_batch(gone)

    def find(self, message_id: MessageId) -> tuple[Delivery, int] | None:
        """Return the delivery and row of an unsettled message, or None."""
        wanted = message_id.coordinates
        for delivery in reversed(list(self._deliveries.values())):
            if (row := delivery.row_of(wanted)) is not None:
                return delivery, row
        return None

    def has_acked(self, message_id: MessageId) -> bool:
        """Return whether this message was settled recently."""
        return message_id.coordinates in self._settled

    def ack_through(self, delivery: Delivery, index: int) -> None:
        """Raise ``Unsupported``: other members have messages in between."""
        raise Unsupported("cumulative_ack", "members that share a log cannot call ack_through")

    def give_back(self, delivery: Delivery, row: int, delay: float) -> None:
        """Make the driver deliver a nacked message again, to any member, even while a change is being stored."""
        coordinates = delivery.batch.coordinates[row]
        delivery.flags[row] = STORED
        self._returned.append((coordinates, delay))
        self.dirty = True

    def set_aside(self, delivery: Delivery, row: int) -> Decide:
        """Withhold a message. Return the function that later acks it, or makes it due again."""
        delivery.flags[row] = RETURNED

        def decide(delay: float | None) -> None:
            if delay is not None:
                self.give_back(delivery, row, delay)
            else:
                delivery.flags[row] = ACKED
                self.dirty = True

        return decide

    @property
    def position(self) -> Position:
        """Not available: members that share a log have no position, so this raises ``Unsupported``."""
        raise Unsupported("ordered", "a member that shares a log has no position in it", fix="Use committed() or lag()")

    @property
    def unsettled(self) -> int:
        """The number of messages that were handed out and are not settled."""
        return sum(delivery.unsettled for delivery in list(self._deliveries.values()))

    @property
    def has_returned(self) -> bool:
        """Whether there are nacks to store."""
        return bool(self._returned)

    def take_returned(self) -> Settlement:
        """Return the nacks to store now; acks wait for ``take_change``."""
        self._taken = Settlement((), self._pop_returned())
        return self._taken

    def _pop_returned(self) -> tuple[tuple[Numbers, float], ...]:
        returned = []
        while self._returned:
            returned.append(self._returned.popleft())
        self._settled.extend([coordinates for coordinates, _ in returned])
        return tuple(returned)

    def take_change(self) -> Settlement:
        """Return the acks and nacks to store now."""
        self.dirty = False
        returned = self._pop_returned() if self._returned else ()
        acked, self._owed = self._owed, []
        for key, delivery in list(self._deliveries.items()):
            acked += _take_acked(delivery)
            if delivery.flags.count(STORED) == len(delivery.flags):  # which means that all were handed out
                del self._deliveries[key]
                delivery.part_from_batch(self.passed)
        self._settled.extend(acked)
        self._taken = Settlement(tuple(acked), returned)
        return self._taken

    def put_back(self) -> None:
        """Mark the taken changes as not stored: the next commit tries again."""
        self._owed[:0] = self._taken.acked
        self._returned.extendleft(reversed(self._taken.returned))
        self.dirty = True


def _take_acked(delivery: Delivery) -> list[Numbers]:
    """Mark acked messages as stored, and return them. The batch may have more than the delivery, which was split."""
    flags = delivery.flags
    taken: list[Numbers] = []
    row = flags.find(ACKED)
    if row < 0:
        return taken
    coordinates = delivery.batch.coordinates
    if (size := len(flags)) == flags.count(ACKED):
        flags[:] = bytes([STORED]) * size
        return list(coordinates[:size])
    while row >= 0:
        flags[row] = STORED
        taken.append(coordinates[row])
        row = flags.find(ACKED, row + 1)
    return taken
