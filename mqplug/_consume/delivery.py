"""Batches on their way to the caller, with one byte for the state of each message.

An ack sets the byte without a lock. ``OPEN`` is 0, so that ``find`` locates the first open row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Protocol

from mqplug._model.batch import Batch, ListColumns, empty_batch, row_numbers
from mqplug._model.message import Message, messages_of
from mqplug._model.position import Position

if TYPE_CHECKING:
    from mqplug._model.id_text import Numbers
    from mqplug._model.ids import MessageId
    from mqplug.spi._drivers import Offer

OPEN, ACKED, RETURNED, STORED, PENDING = range(5)
"""The states of a message. ``PENDING`` is an ack in an uncommitted transaction."""


StillHolds = Callable[[], bool]
Decide = Callable[[float | None], None]
"""Settles a message that was set aside: None acks it, a number delivers it again after these seconds."""


class DeliveryTracker(Protocol):
    """A tracker of the deliveries of one log, ordered or shared."""

    owner: object
    dirty: bool
    awaited: bool
    passed: Delivery

    def find(self, message_id: MessageId) -> tuple[Delivery, int] | None: ...
    def ack_through(self, delivery: Delivery, index: int) -> None: ...
    def give_back(self, delivery: Delivery, row: int, delay: float) -> None: ...
    def set_aside(self, delivery: Delivery, row: int) -> Decide: ...


class Delivery:
    """A batch that is being handed to the caller.

    ``messages`` iterates without Python code. To end it early, any thread exhausts ``_left``. ``again`` is the nacked
    message that this delivers again, if any. ``still_holds`` is called before each message is handed out, and returns
    whether the log still belongs to this member. The messages of an ``offer`` are taken as they are handed out.
    """

    __slots__ = (
        "_end", "_held_back", "_left", "_messages", "_taken", "_untaken", "again", "batch", "flags", "folded", "live",
        "offer", "still_holds", "tracker", "whole",
    )  # fmt: skip

    def __init__(
        self,
        batch: Batch,
        tracker: DeliveryTracker,
        again: NackedMessage | None = None,
        still_holds: StillHolds | None = None,
        offer: Offer | None = None,
    ) -> None:
        size = len(batch)
        self.batch = batch
        self.tracker = tracker
        self.flags = bytearray(size)
        self.live = True
        self.folded = False  # whether its batch has only the first and the last id of a range of acked messages
        self.whole = False
        self.again = again
        self._end = batch.next_position
        self._held_back: list[int] = []
        self._left = row_numbers(size)
        # The thread that takes the batch from this iterator owns it. Ctrl-C cannot interrupt between the steps.
        self._untaken = iter((batch,) if size else ())
        self._taken: list[Batch] = []  # the batch, if it is handed out as a whole
        self.still_holds = still_holds
        self.offer = offer
        self._messages: Iterator[Message] | None = None
        batch.delivery = self

    @property
    def messages(self) -> Iterator[Message]:
        """The remaining messages. Values are decoded on first use, not for a batch that is handed out as a whole."""
        if self._messages is None:
            batch, holds = self.batch, self.still_holds
            if self.offer is not None:
                holds = partial(_take_next, self._left, self.offer)
            # The check comes before the row: if it fails, no row is consumed or counts as handed out.
            checked = repeat(batch) if holds is None else map((None, batch).__getitem__, iter(holds, False))
            self._messages = messages_of(batch, checked, self._left)  # type: ignore[arg-type]
        return self._messages

    @property
    def left(self) -> int:
        """The number of messages that were not handed out."""
        if self._taken:
            return 0 if self.whole else len(self.flags)
        return length_hint(self._left) + len(self._held_back)

    @property
    def handed_out(self) -> int:
        """The number of messages that were handed out."""
        return len(self.flags) - self.left

    @property
    def unsettled(self) -> int:
        """The number of messages handed out that are neither acked nor nacked."""
        return self.flags.count(OPEN) - self.left

    def row_of(self, wanted: Numbers) -> int | None:
        """Return the row of a message that was handed out, or None."""
        coordinates = self.batch.coordinates
        row = bisect_left(coordinates, wanted)
        return row if row < self.handed_out and coordinates[row] == wanted else None

    @property
    def position(self) -> Position:
        """The position of the next message that would be handed out."""
        left = self.left
        if not left:
            return self._end
        return Position(self.batch.log, self.batch.coordinates[len(self.flags) - left])

    @property
    def end(self) -> Position:
        """The position after the whole delivery."""
        return self._end

    def hold_back(self) -> None:
        """End the hand-out here. One interpreter step exhausts the rest, so no other thread can take part of it."""
        for _ in self._untaken:
            pass
        if not self._taken:
            self._held_back.extend(self._left)

    def drop(self) -> None:
        """Invalidate this delivery: its acks are late, and nothing more is handed out."""
        self.live = False
        self.hold_back()

    def part_from_batch(self, passed: Delivery) -> None:
        """Point the batch of a settled or invalid delivery at another one, whose acks are also late.

        Batch and delivery refer to each other; otherwise only the garbage collector would free the pages.
        """
        self.batch.delivery = passed

    def fold(self, last: Delivery, passed: Delivery) -> None:
        """Keep only the range from its first message to the last of ``last``, which may be itself. Both are acked."""
        ends = self.batch if not len(last.batch) else last.batch
        first, final, log = self.batch.coordinates[0], ends.coordinates[-1], self.batch.log
        last.part_from_batch(passed)
        self.batch = Batch(log, last.end, 2, ListColumns([first, final], (), (), (), (), ()))
        self.flags = bytearray((ACKED, ACKED))
        self._end, self._messages, self.folded = last.end, None, True

    def split(self) -> Batch:
        """Keep the messages that were handed out. Return the others as a separate batch."""
        self.hold_back()
        cut = len(self.flags) - self.left
        rest, none = self.batch[cut:], row_numbers(0)
        self._end = self.position
        self._held_back, self._taken, self._left = [], [], none  # no call after this, so no Ctrl-C can interrupt
        del self.flags[cut:]
        return rest

    def split_taken(self) -> Batch:
        """Split as ``split`` does. Of an offer, return only what was taken for an interrupted caller."""
        row = first = self.handed_out
        rest = self.split()
        if self.offer is None:
            return rest
        while row - first < len(rest) and self.offer.has_taken(row):
            row += 1
        return rest[: row - first]

    def hand_out_all(self) -> Batch | None:
        """Return the whole batch as handed out; None if another thread took it back, or its log is lost."""
        if self.still_holds is not None and not self.still_holds():
            return None
        self._taken.extend(self._untaken)
        if not self._taken:
            return None
        self.whole = True  # now it is handed out
        return self.batch

    def ack_seen(self, *, more_wanted: bool) -> None:
        """Ack the messages that the caller took before it asked for more."""
        seen = self.handed_out
        if not more_wanted:
            seen = 0 if self.whole else seen - 1
        if seen > 0 and self.flags.find(OPEN, 0, seen) >= 0:
            self.flags[:seen] = self.flags[:seen].replace(b"\0", b"\1")
            self.tracker.dirty = True


def _take_next(left: Iterator[int], offer: Offer) -> bool:
    """Take the next offered message, unless the hand-out has ended. Return whether this member has it."""
    return length_hint(left) > 0 and offer.take()


class PassedTracker:
    """A stand-in for the tracker of settled and forgotten messages, which avoids a reference cycle of the tracker."""

    awaited = dirty = False

    def __init__(self, owner: object) -> None:
        self.owner = owner


def nothing(position: Position, tracker: DeliveryTracker | PassedTracker) -> Delivery:
    """Return an empty delivery whose acks are late."""
    delivery = Delivery(empty_batch(position), tracker)  # type: ignore[arg-type]  # it has nothing to settle
    delivery.live, delivery.batch.delivery = False, None
    return delivery


class NackedMessage:
    """A nacked message: its first delivery, when it is due, and its current delivery."""

    __slots__ = ("attempt", "delivery", "due", "pending", "present", "row")

    def __init__(self, delivery: Delivery, row: int, attempt: int, due: float) -> None:
        self.delivery = delivery
        self.row = row
        self.attempt = attempt
        self.due = due
        self.present: Delivery | None = None
        self.pending = False
        """Whether an uncommitted transaction acked it."""

    @property
    def coordinates(self) -> Numbers:
        """Its coordinates in the log."""
        return self.delivery.batch.coordinates[self.row]
