"""Delivered messages that the broker does not know as acked yet."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Any

from mqplug.spi import GroupPosition, Numbers
from mqplug_pulsar._consume.received_messages import ReceivedMessages
from mqplug_pulsar._format import message_ids


class Unacked:
    """The unacked deliveries of one log. ``add`` may run while ``ack`` does."""

    def __init__(self) -> None:
        self._runs: deque[tuple[ReceivedMessages, bytearray]] = deque()
        self.last: Any = None
        """The native id of the last message to be acked cumulatively; None once the broker has the ack."""
        self.within: list[Any] = []
        """Native ids of messages between it and the acked position; empty once the broker has the acks."""
        self.single: list[Any] = []
        """Native ids of messages acked behind the acked position; empty once the broker has the acks."""

    def add(self, run: ReceivedMessages) -> None:
        """Remember messages that are about to be delivered."""
        self._runs.append((run, bytearray(len(run.ids))))

    def holds(self, place: Numbers) -> bool:
        """Return whether this message was delivered and is not acked."""
        for run, acked in list(self._runs):
            places = run.coordinates()
            if places[0] <= place <= places[-1] and place in places:
                return not acked[places.index(place)]
        return False

    def take(self, state: GroupPosition) -> bool:
        """Take out the messages before the position and in the acked ranges. Return whether there are any to ack."""
        self._take(state.position.coordinates)
        for run, acked in list(self._runs):
            places = run.coordinates()
            ranges = [each for each in state.acked if each[1] >= places[0] and each[0] <= places[-1]]
            for row, place in enumerate(places if ranges else ()):
                if not acked[row] and any(first <= place <= last for first, last in ranges):
                    self.single.append(run.ids[row])
                    acked[row] = 1
        return self.moved or bool(self.single)

    @property
    def moved(self) -> bool:
        """Whether the acked position moves with the messages taken out."""
        return self.last is not None or bool(self.within)

    def ack(self, consumer: Any) -> None:
        """Ack the messages that were taken out."""
        for native in (*self.within, *self.single):
            consumer.acknowledge(native)
        if self.last is not None:
            consumer.acknowledge_cumulative(self.last)

    def stored(self) -> None:
        """Forget the acks, which the broker now has."""
        self.last, self.within, self.single = None, [], []

    def _take(self, end: Numbers) -> None:
        while self._runs:
            run, acked = self._runs[0]
            places = run.coordinates()
            passed = len(places) if places[-1] < end else sum(place < end for place in places)
            if 0 in acked[:passed]:
                self._pass(run, passed)
                acked[:passed] = b"\1" * passed
            if passed < len(places):
                return
            self._runs.popleft()

    def _pass(self, run: ReceivedMessages, passed: int) -> None:
        """Take out the first ``passed`` messages of a run, all of which are acked, as are those before the run."""
        together = passed - _one_by_one(run, passed)
        if together:
            self.last, self.within = run.ids[together - 1], []
        self.within += run.ids[together:passed]


def _one_by_one(run: ReceivedMessages, passed: int) -> int:
    """Return how many of the last of ``passed`` messages must not be acked cumulatively.

    Inside a batch, that makes the broker forget later acks of other members. There are none if the rest of the batch
    was delivered here.
    """
    places = run.coordinates()
    ledger, entry, index = places[passed - 1][:3]
    size = message_ids.detail(run.ids[passed - 1])
    if index < 0 or not size:
        return 0
    end = passed + size[0] - index - 1
    if end <= len(places) and places[end - 1][:2] == (ledger, entry):
        return 0
    return passed - bisect_left(places, (ledger, entry), 0, passed)
