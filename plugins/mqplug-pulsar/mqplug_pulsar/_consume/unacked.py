"""Delivered messages that the broker does not know as acked yet, and acks that it has yet to confirm."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import islice
from operator import itemgetter
from typing import Any

import pulsar

from mqplug.spi import GroupPosition, Numbers
from mqplug_pulsar._consume.received_messages import ReceivedMessages
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import BatchAcks, Entry, in_mask

_END = 2**63  # greater than any index
_LAST = itemgetter(1)


class Unacked:
    """The unacked deliveries of one log. ``add`` may run while ``ack`` does.

    Acks are never cumulative: these would ack what this member never got, and the native client would then drop
    earlier messages if they come again.
    """

    def __init__(self) -> None:
        self._masks: dict[Entry, int] = {}  # of batches that are acked in part, by any member
        self.changed: dict[Entry, int] = {}
        """Those masks that this member has changed, and not stored yet."""
        self.whole: list[Entry] = []
        """The entries that are acked whole, and not stored yet."""
        self.last: Numbers | None = None
        """The coordinates of the last delivery; None before the first one."""
        self._runs: deque[tuple[ReceivedMessages, bytearray]] = deque()
        self._to_ack: list[Any] = []  # native ids

    def add(self, run: ReceivedMessages) -> None:
        """Remember messages that are about to be delivered."""
        self._runs.append((run, bytearray(len(run))))
        self.last = run.coordinates()[-1]

    def forget_from(self, wanted: Numbers | None) -> None:
        """Forget messages from this position on, or all: they were not delivered after all."""
        while self._runs and (wanted is None or self._runs[-1][0].coordinates()[0] >= wanted):
            self._runs.pop()
            self.last = self._runs[-1][0].coordinates()[-1] if self._runs else None

    def holds(self, place: Numbers) -> bool:
        """Return whether this message was delivered and is not acked."""
        return any(_row(run, place, acked) is not None for run, acked in list(self._runs))

    def messages(self) -> list[Any]:
        """Return the native messages that were delivered and are not acked."""
        return [run.messages[row] for run, acked in self._runs for row, done in enumerate(acked) if not done]

    @property
    def knows_parts(self) -> bool:
        """Whether there are batches that are acked in part."""
        return bool(self._masks)

    def was_acked(self, place: Numbers) -> bool:
        """Return whether this message is acked, of a batch that is acked in part."""
        return in_mask(self._masks, place)

    def learn(self, acked: BatchAcks) -> None:
        """Take over the stored acks, which other members may have added or removed."""
        self._masks = dict(acked.joined(self.changed).masks)

    def take(self, state: GroupPosition) -> bool:
        """Take out the messages before the position and in the acked ranges. Return whether there are any to ack."""
        end = state.position.coordinates
        for run, acked in list(self._runs):
            places = run.coordinates()
            passed = bisect_left(places, end)
            self._take(run, acked, 0, passed)
            if passed < len(places):
                for first, last in islice(state.acked, bisect_left(state.acked, places[passed], key=_LAST), None):
                    if first > places[-1]:
                        break
                    start, behind = bisect_left(places, first, passed), bisect_left(places, (*last, _END), passed)
                    self._take(run, acked, start, behind)
        while self._runs and 0 not in self._runs[0][1]:
            self._runs.popleft()
        return bool(self._to_ack)

    @property
    def to_ack(self) -> int:
        """How many acks were taken out."""
        return len(self._to_ack)

    def ack(self, consumer: Any) -> None:
        """Ack the messages that were taken out."""
        for native in self._to_ack:
            consumer.acknowledge(native)

    def stored(self) -> None:
        """Forget the acks that were taken out: the broker has them now."""
        self._to_ack, self.changed, self.whole = [], {}, []

    def _take(self, run: ReceivedMessages, acked: bytearray, row: int, behind: int) -> None:
        """Take out rows, batch by batch."""
        places = run.coordinates()
        while row < behind:
            ledger, entry, index = places[row][:3]
            end = bisect_left(places, (ledger, entry + 1), row, behind)
            if index < 0:
                self._to_ack += [run.id_of(each) for each in range(row, end) if not acked[each]]
                self.whole.append((ledger, entry))
            elif 0 in acked[row:end]:
                fresh = [each for each in range(row, end) if not acked[each]]
                self._take_of_batch((ledger, entry), run, fresh)
            acked[row:end] = b"\1" * (end - row)
            row = end

    def _take_of_batch(self, entry: Entry, run: ReceivedMessages, rows: list[int]) -> None:
        places = run.coordinates()
        mask = self._masks.pop(entry, 0)
        for row in rows:
            mask |= 1 << places[row][2]
        size = message_ids.detail(run.id_of(rows[0]))
        if size and mask == (1 << size[0]) - 1:
            self._to_ack.append(pulsar.MessageId(-1, *entry, -1))
            self.whole.append(entry)
        else:
            self._to_ack += [run.id_of(row) for row in rows]
            self._masks[entry] = self.changed[entry] = mask


def _row(run: ReceivedMessages, place: Numbers, acked: bytearray) -> int | None:
    places = run.coordinates()
    row = bisect_left(places, place)
    return row if row < len(places) and places[row] == place and not acked[row] else None
