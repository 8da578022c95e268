"""Messages in hand, by key: one key's messages are handled in sequence, those of different keys in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mqplug._consume.ack_tracker import Tracker
    from mqplug._consume.delivery import Delivery
    from mqplug._model.id_text import Numbers
    from mqplug._model.message import Message


LANE_MESSAGES = 1000  # the most in hand when handled by key, because a busy key holds some of them


class NackedInLane(NamedTuple):
    """A nacked message, for which the messages of its key wait."""

    delivery: Delivery
    tracker: Tracker
    coordinates: Numbers

    @property
    def is_awaited(self) -> bool:
        """Whether it will be delivered again; not if it went to the dead letters or its partition was lost."""
        return self.delivery.live and self.tracker.withholds(self.coordinates)


class Lane:
    """The messages of one key, handled one at a time. A message without a key has its own lane."""

    __slots__ = ("in_work", "key", "messages", "nacked")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.messages: deque[Message] = deque()
        self.in_work = False
        self.nacked: NackedInLane | None = None

    def add(self, message: Message) -> None:
        """Add a message after the others, or before them if it is the nacked one."""
        if self.nacked is not None and message._batch.coordinates[message._index] == self.nacked.coordinates:
            self.nacked = None
            self.messages.appendleft(message)
        else:
            self.messages.append(message)

    @property
    def blocked(self) -> bool:
        """Whether its messages wait for a nacked one."""
        if self.nacked is not None and not self.nacked.is_awaited:
            self.nacked = None
        return self.nacked is not None


class KeyLanes:
    """The lanes of one ``run``. Without a lock: one thread at a time may use it."""

    def __init__(self, *, by_key: bool) -> None:
        self._by_key = by_key
        self._lanes: dict[Hashable, Lane] = {}
        self.messages = 0
        """The number of messages that wait or are being handled."""

    def add_all(self, messages: Iterable[Message]) -> list[Lane]:
        """Add messages. Return the lanes to start; the others are at work or blocked."""
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
        """Return the next message of a lane at work, or None to end its work, as with ``stopping``."""
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
        """Hold back a lane until its nacked message is delivered again or settled."""
        delivery = message._batch.delivery
        first = delivery if delivery.again is None else delivery.again.delivery
        lane.nacked = NackedInLane(first, delivery.tracker, message._batch.coordinates[message._index])

    def revived(self) -> list[Lane]:
        """Return the lanes to start because they are no longer blocked."""
        waiting = [lane for lane in self._lanes.values() if lane.nacked is not None and not lane.in_work]
        for lane in waiting:
            if not lane.messages and not lane.blocked:
                del self._lanes[lane.key]
        return [lane for lane in waiting if lane.messages and self._begins(lane)]

    @property
    def holds_nacked(self) -> bool:
        """Whether a lane waits for a nacked message, according to the last check."""
        return any(lane.nacked is not None and not lane.in_work for lane in self._lanes.values())

    def take_waiting(self) -> list[Message]:
        """Remove and return all messages whose handling has not begun."""
        waiting = [message for lane in self._lanes.values() for message in lane.messages]
        for lane in self._lanes.values():
            lane.messages.clear()
        self.messages -= len(waiting)
        return waiting

    def _begins(self, lane: Lane) -> bool:
        """Return whether a lane must start now."""
        if lane.in_work or lane.blocked:
            return False
        lane.in_work = True
        return True
