"""What a member of a shared group has in hand of one log. Where the group stands is the driver's business."""

from __future__ import annotations

from collections import deque

from mqplug._consume.delivery import ACKED, RETURNED, STORED, Decide, Delivery, StillHolds, nothing
from mqplug._model.batch import Batch
from mqplug._model.errors import Unsupported
from mqplug._model.ids import MessageId
from mqplug._model.position import Position
from mqplug._model.text import Numbers
from mqplug.spi._actions import GroupPosition, Settlement

REMEMBERED_MESSAGES = 10_000  # ids of settled messages: an ack of one of them is late, not wrong


class SharedTracker:
    """The deliveries that are not settled yet, in one epoch."""

    def __init__(self, owner: object, start: GroupPosition) -> None:
        self.owner = owner
        self.dirty = False
        self.awaited = False
        self.ranges = 0
        self.oldest: MessageId | None = None  # nobody waits for one message here
        self._deliveries: dict[int, Delivery] = {}
        self._returned: list[tuple[Numbers, float]] = []
        self._taken = Settlement()
        self._owed: list[Numbers] = []  # acks that could not be stored yet
        self._settled: deque[Numbers] = deque(maxlen=REMEMBERED_MESSAGES)
        self.passed = nothing(start.position, self)

    def without_acked(self, batch: Batch) -> Batch:
        """All of it: the driver hands out nothing that was acked."""
        return batch

    def deliver(self, batch: Batch, still_holds: StillHolds | None = None) -> Delivery:
        """Begin to hand a batch out."""
        delivery = Delivery(batch, self, still_holds=still_holds)
        if len(batch):
            self._deliveries[id(delivery)] = delivery
        return delivery

    @property
    def latest(self) -> Delivery | None:
        """What was delivered last."""
        return next(reversed(list(self._deliveries.values())), None)

    def drop(self) -> None:
        """Forget all deliveries."""
        for delivery in list(self._deliveries.values()):
            delivery.drop()

    def find(self, message_id: MessageId) -> tuple[Delivery, int] | None:
        """Where a message was handed out, if it is not settled."""
        wanted = message_id.coordinates
        for delivery in reversed(list(self._deliveries.values())):
            if (row := delivery.row_of(wanted)) is not None:
                return delivery, row
        return None

    def has_acked(self, message_id: MessageId) -> bool:
        """Whether this message was settled lately."""
        return message_id.coordinates in self._settled

    def ack_through(self, delivery: Delivery, index: int) -> None:
        """Others have messages in between."""
        raise Unsupported("cumulative_ack", "ack_through has no meaning among members that share a log")

    def give_back(self, delivery: Delivery, row: int, delay: float) -> None:
        """A message was nacked: the driver hands it out again, to anybody."""
        delivery.flags[row] = STORED
        self._returned.append((delivery.batch.coordinates[row], delay))
        self.dirty = True

    def set_aside(self, delivery: Delivery, row: int) -> Decide:
        """A message is nobody's until it is decided that it is done, or comes again."""
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
        """There is none: each member gets what is free."""
        raise Unsupported(
            "ordered", "a member that shares a log has no position in it", fix="Ask for committed(), or for lag()"
        )

    @property
    def unsettled(self) -> int:
        """How many messages were handed out and are not settled."""
        return sum(delivery.unsettled for delivery in list(self._deliveries.values()))

    def take_change(self) -> Settlement:
        """What is to be settled now."""
        self.dirty = False
        returned, self._returned = self._returned, []
        acked, self._owed = self._owed, []
        for key, delivery in list(self._deliveries.items()):
            acked += _take_acked(delivery)
            if delivery.flags.count(STORED) == len(delivery.flags) and not delivery.left:
                del self._deliveries[key]
                delivery.part_from_batch(self.passed)
        self._settled.extend(acked)
        if returned:
            self._settled.extend([coordinates for coordinates, _ in returned])
        self._taken = Settlement(tuple(acked), tuple(returned))
        return self._taken

    def put_back(self) -> None:
        """What was taken was not settled after all: the next one tries again."""
        self._owed[:0] = self._taken.acked
        self._returned[:0] = self._taken.returned
        self.dirty = True


def _take_acked(delivery: Delivery) -> list[Numbers]:
    flags, taken = delivery.flags, []
    row = flags.find(ACKED)
    while row >= 0:
        flags[row] = STORED
        taken.append(delivery.batch.coordinates[row])
        row = flags.find(ACKED, row + 1)
    return taken
