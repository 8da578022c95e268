"""The limits by which a partition waits: ``max_unacked``, and how many acked ranges the backend can store."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from mqplug._consume.ack_tracker import Tracker

if TYPE_CHECKING:
    from mqplug._consume.assignment import Assignment, HeldPartition
    from mqplug._consume.driver_session import DriverSession
    from mqplug.spi._drivers import ConsumerDriver

MAX_POLL_MESSAGES = 10_000  # even if the caller asks for more, because all of them are in memory
UNCOUNTED_RANGES = 1_000_000  # a backend that stores this many acked ranges counts as unlimited


class DeliveryLimits:
    """How many messages a consumer may poll, and hand out of each partition."""

    def __init__(self, driver_session: DriverSession, assignment: Assignment, max_unacked: int | None) -> None:
        self._driver_session = driver_session
        self._assignment = assignment
        self._max_unacked = max_unacked
        self._most_ranges = driver_session.connection.capabilities.acked_ranges_max

    def poll_limit(self, driver: ConsumerDriver, most: int) -> int:
        """Return how many messages to poll. In the shared modes, other members cannot get a polled message."""
        if not self._driver_session.shares:
            return min(max(most, driver.poll_messages), MAX_POLL_MESSAGES)
        if self._max_unacked is None:
            return most
        return min(most, self._max_unacked - sum(held.tracker.unsettled for held in self._assignment.all))

    def room(self, held: HeldPartition, *, in_order: bool) -> float:
        """Return how many messages of a partition may be handed out now."""
        tracker = held.tracker
        tracker.awaited = False
        if held.paused or held.busy or held.fault is not None or (held.due and held.due > time.monotonic()):
            return 0
        if not isinstance(tracker, Tracker):
            return math.inf  # fetched messages are already leased
        tracker.folds = not in_order
        if tracker.returned.settle() and in_order:
            room: float = 0
        else:
            room = self._room_for_acked_ranges(tracker)
            if self._max_unacked is not None:
                room = min(room, self._max_unacked - tracker.unsettled)
        tracker.awaited = room <= 0
        return room

    def _room_for_acked_ranges(self, tracker: Tracker) -> float:
        """Return how many messages may follow such that the backend can still store the gaps between acks.

        While few messages are open a whole batch may follow, because there are at most as many ranges as open messages.
        """
        if self._most_ranges >= UNCOUNTED_RANGES or self._driver_session.group is None:
            return math.inf
        if 2 * tracker.kept <= self._most_ranges:
            return math.inf
        gaps = tracker.unsettled
        if 2 * gaps <= self._most_ranges:
            return math.inf
        if tracker.dirty and not self._assignment.committing.locked():
            with self._assignment.committing:
                tracker.state()
        return 2 * (self._most_ranges - min(gaps, tracker.ranges))
