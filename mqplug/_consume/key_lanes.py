"""Messages in hand, by key: those of one key are handled one after the other, those of different keys side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mqplug._consume.ack_tracker import Tracker
    from mqplug._consume.delivery import Delivery
    from mqplug._model.message import Message
    from mqplug._model.text import Numbers


class NackedInLane(NamedTuple):
    """A message that was nacked: those of its key wait for it."""

    delivery: Delivery
    tracker: Tracker
    coordinates: Numbers

    @property
    def is_awaited(self) -> bool:
        """Whether it has yet to come again. It does not if it was buried, or its partition was lost."""
        return self.delivery.live and self.tracker.withholds(self.coordinates)


class Lane:
    """The messages of one key, of which one at a time is handled. A message without a key has a lane of its own."""

    __slots__ = ("in_work", "key", "messages", "nacked")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.messages: deque[Message] = deque()
        self.in_work = False
        self.nacked: NackedInLane | None = None

    def add(self, message: Message) -> None:
        """Add a message behind the others; one that was nacked and comes again goes before them."""
        if self.nacked is not None and message._batch.coordinates[message._index] == self.nacked.coordinates:
            self.nacked = None
            self.messages.appendleft(message)
        else:
            self.messages.append(message)

    @property
    def blocked(self) -> bool:
        """Whether its messages wait for one that was nacked."""
        if self.nacked is not None and not self.nacked.is_awaited:
            self.nacked = None
        return self.nacked is not None


class KeyLanes:
    """The lanes of one ``run``. Not locked: one thread at a time may use it."""

    def __init__(self, *, by_key: bool) -> None:
        self._by_key = by_key
        self._lanes: dict[Hashable, Lane] = {}
        self.messages = 0
        """The number of messages that wait or are being handled."""

    def add_all(self, messages: Iterable[Message]) -> list[Lane]:
        """Add messages. Return the lanes to be put to work; the others are at work, or blocked."""
        begun = []
        for message in messages:
            lane = self._lane_of(message)
            lane.add(message)
            self.messages += 1
            if self._begins(lane):
                begun.append(lane)
        return begun

    def _lane_of(self, message: Message) -> Lane:
        key = (message.topic, message.key) if self._by_key and message.key is not None else object()
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        return lane

    def next(self, lane: Lane, *, stopping: bool) -> Message | None:
        """Return the next message of a lane at work; None ends the work, as ``stopping`` does."""
        if lane.messages and not stopping and not lane.blocked:
            return lane.messages.popleft()
        lane.in_work = False
        if not lane.messages and lane.nacked is None:
            del self._lanes[lane.key]
        return None

    def handled(self) -> None:
        """Count a message as no longer in hand."""
        self.messages -= 1

    def block(self, lane: Lane, message: Message) -> None:
        """Hold back a lane until its nacked message comes again, or is settled."""
        delivery = message._batch.delivery
        first = delivery if delivery.again is None else delivery.again.delivery
        lane.nacked = NackedInLane(first, delivery.tracker, message._batch.coordinates[message._index])

    def revived(self) -> list[Lane]:
        """Return the lanes that are no longer blocked, to be put to work."""
        waiting = [lane for lane in self._lanes.values() if lane.nacked is not None and not lane.in_work]
        for lane in waiting:
            if not lane.messages and not lane.blocked:
                del self._lanes[lane.key]
        return [lane for lane in waiting if lane.messages and self._begins(lane)]

    @property
    def holds_nacked(self) -> bool:
        """Whether a lane waits for a nacked message, as far as is known."""
        return any(lane.nacked is not None and not lane.in_work for lane in self._lanes.values())

    def take_waiting(self) -> list[Message]:
        """Remove all messages whose handling has not begun, and return them."""
        waiting = [message for lane in self._lanes.values() for message in lane.messages]
        for lane in self._lanes.values():
            lane.messages.clear()
        self.messages -= len(waiting)
        return waiting

    def _begins(self, lane: Lane) -> bool:
        """Return whether a lane is to be put to work now."""
        if lane.in_work or lane.blocked:
            return False
        lane.in_work = True
        return True
