"""The acks of a group member: which deliveries are acked, and which acks the broker has stored."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import _pulsar
import pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline, GroupPosition, Numbers
from mqplug_pulsar._admin import group_notes, subscriptions
from mqplug_pulsar._admin.ack_confirmation import MAX_ACKS_TOGETHER, CursorWrites, ack_and_ask, ack_and_wait
from mqplug_pulsar._cluster.broker_statistics import Cursor
from mqplug_pulsar._cluster.client_calls import retry_while_unreachable
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.received_messages import ReceivedMessages
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.note_texts import NOTHING_ACKED, BatchAcks, Entry, in_mask

_END = 2**63  # greater than any index
_LAST = itemgetter(1)

Parts = dict[Entry, list[tuple[ReceivedMessages, Sequence[int]]]]
"""The rows of batches, by entry, in the runs that delivered them."""


class Unacked:
    """The unacked deliveries of one log. ``add`` may run while ``ack`` does.

    Acks are never cumulative: a cumulative ack would include messages that this member never got, and the client
    library would then drop earlier messages if they are redelivered.
    """

    def __init__(self) -> None:
        self._masks: dict[Entry, int] = {}  # of partly acked batches, by any member
        self.changed: dict[Entry, int] = {}
        """The masks that this member has changed but not stored yet."""
        self.whole: list[Entry] = []
        """The fully acked entries that are not stored yet."""
        self.last: Numbers | None = None
        """The coordinates of the last delivery; None before the first one."""
        self._runs: deque[tuple[ReceivedMessages, bytearray]] = deque()
        self._to_ack: list[Any] = []  # ids of the client library

    def add(self, run: ReceivedMessages) -> None:
        """Remember messages that are about to be delivered."""
        self._runs.append((run, bytearray(len(run))))
        self.last = run.coordinates()[-1]

    def forget_from(self, wanted: Numbers | None) -> None:
        """Forget the messages at and after this position, or all of them: they were not delivered after all."""
        while self._runs and (wanted is None or self._runs[-1][0].coordinates()[0] >= wanted):
            self._runs.pop()
            self.last = self._runs[-1][0].coordinates()[-1] if self._runs else None

    def holds(self, place: Numbers) -> bool:
        """Return whether this message was delivered and is unacked."""
        return any(_row(run, place, acked) is not None for run, acked in list(self._runs))

    def messages(self) -> list[Any]:
        """Return the client's messages that were delivered and are unacked."""
        return [run.messages[row] for run, acked in self._runs for row, done in enumerate(acked) if not done]

    @property
    def knows_parts(self) -> bool:
        """Whether there are partly acked batches."""
        return bool(self._masks)

    def was_acked(self, place: Numbers) -> bool:
        """Return whether this message of a partly acked batch is acked."""
        return in_mask(self._masks, place)

    def learn(self, acked: BatchAcks) -> None:
        """Adopt the stored acks, which other members may have added or removed."""
        self._masks = dict(acked.joined(self.changed).masks)

    def take(self, state: GroupPosition) -> bool:
        """Take out the messages before the position and in the acked ranges. Return whether there are any to ack."""
        end = state.position.coordinates
        parts: Parts = {}
        for run, acked in list(self._runs):
            places = run.coordinates()
            passed = bisect_left(places, end)
            self._take(run, acked, 0, passed, parts)
            if passed < len(places):
                for first, last in islice(state.acked, bisect_left(state.acked, places[passed], key=_LAST), None):
                    if first > places[-1]:
                        break
                    start, stop = bisect_left(places, first, passed), bisect_left(places, (*last, _END), passed)
                    self._take(run, acked, start, stop, parts)
        for entry, of_batch in parts.items():
            self._take_of_batch(entry, of_batch)
        while self._runs and 0 not in self._runs[0][1]:
            self._runs.popleft()
        return bool(self._to_ack)

    @property
    def to_ack(self) -> int:
        """The number of acks that were taken out."""
        return len(self._to_ack)

    def ack(self, consumer: Any) -> None:
        """Ack the messages that were taken out."""
        for native in self._to_ack:
            consumer.acknowledge(native)

    def stored(self) -> None:
        """Forget the acks that were taken out: the broker has them now."""
        self._to_ack, self.changed, self.whole = [], {}, []

    def _take(self, run: ReceivedMessages, acked: bytearray, row: int, stop: int, parts: Parts) -> None:
        """Take out rows, batch by batch. Those of batches go to ``parts``: a batch may be delivered in several runs."""
        places = run.coordinates()
        while row < stop:
            ledger, entry, index = places[row][:3]
            end = bisect_left(places, (ledger, entry + 1), row, stop)
            if index < 0:
                self._to_ack += [run.id_of(each) for each in range(row, end) if not acked[each]]
                self.whole.append((ledger, entry))
            elif 0 in acked[row:end]:
                fresh = range(row, end) if 1 not in acked[row:end] else [at for at in range(row, end) if not acked[at]]
                parts.setdefault((ledger, entry), []).append((run, fresh))
            acked[row:end] = b"\1" * (end - row)
            row = end

    def _take_of_batch(self, entry: Entry, parts: Sequence[tuple[ReceivedMessages, Sequence[int]]]) -> None:
        """Ack a batch as a whole if all of its messages are acked now, otherwise each of these."""
        mask = self._masks.pop(entry, 0)
        for run, rows in parts:
            mask |= _mask(run.coordinates(), rows)
        first, rows = parts[0]
        size = message_ids.detail(first.id_of(rows[0]))
        if size and mask == (1 << size[0]) - 1:
            self._to_ack.append(pulsar.MessageId(-1, *entry, -1))
            self.whole.append(entry)
        else:
            self._to_ack += [run.id_of(row) for run, rows in parts for row in rows]
            self._masks[entry] = self.changed[entry] = mask


def _mask(places: Sequence[Numbers], rows: Sequence[int]) -> int:
    """Return the mask of these rows of a batch."""
    first, last = places[rows[0]][2], places[rows[-1]][2]
    if last - first + 1 == len(rows):
        return ((1 << len(rows)) - 1) << first
    return sum(1 << places[row][2] for row in rows)


def _row(run: ReceivedMessages, place: Numbers, acked: bytearray) -> int | None:
    places = run.coordinates()
    row = bisect_left(places, place)
    return row if row < len(places) and places[row] == place and not acked[row] else None


LEARN_TIMEOUT_S = 2.0
LEARN_INTERVAL_S = 0.5


class Committer:
    """The acks of one member on all its logs."""

    def __init__(self, connection: PulsarConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._natives: dict[Log, Any] = {}
        self._unacked: dict[Log, Unacked] = {}
        self._learnt: dict[Log, float] = {}
        self._cursors: dict[Log, Cursor] = {}
        self._asked: dict[Log, Future[Cursor | None]] = {}
        self._unanswered: set[Log] = set()
        self._written: dict[Log, Entry] = {}  # all is acked up to it, and the broker has certainly written it

    def opened(self, log: Log, native: Any) -> None:
        """Store the acks of a log through this client's consumer from now on, and forget earlier deliveries."""
        self._natives[log] = native
        self._unacked[log] = Unacked()
        self._learnt.pop(log, None)
        self._cursors.pop(log, None)
        self._written.pop(log, None)

    def reopened(self, log: Log, native: Any, wanted: Numbers | None) -> None:
        """Store the acks of a log through this client's consumer. Messages from ``wanted`` on were not delivered."""
        self._natives[log] = native
        self._unacked[log].forget_from(wanted)

    def unacked(self, log: Log) -> Unacked:
        """Return the deliveries of a log."""
        return self._unacked[log]

    def can_learn(self, log: Log) -> bool:
        """Return whether a broker has answered the request of ``learn``. Never wait: a later call sees the answer."""
        if self._connection.admin is None:
            return True
        asked = self._asked.pop(log, None) or self._ask(log)
        if not asked.done():
            self._asked[log] = asked
            return False
        return _is_answer(asked)

    def learn(self, log: Log) -> Cursor | None:
        """Read the acks of other members. Return the group's cursor; None if it cannot be read."""
        there = None
        self._unanswered.discard(log)
        if self._connection.admin is not None:
            asked = self._ask(log)
            with suppress(mqplug.Error, _pulsar.PulsarException, TimeoutError):  # acked messages may come again
                there = asked.result(LEARN_TIMEOUT_S)
            if not (asked.done() and _is_answer(asked)):
                self._unanswered.add(log)
        self.take_over(log, there.acks if there is not None else BatchAcks())
        if there is not None:
            self._cursors[log] = there
        return there

    def _ask(self, log: Log) -> Future[Cursor | None]:
        ask = partial(subscriptions.cursor, self._connection, log, self._group, LEARN_TIMEOUT_S)
        return self._connection.calls.start(ask)

    def learnt(self, log: Log) -> Cursor | None:
        """Return the group's cursor as last read; None if it was not read."""
        return self._cursors.get(log)

    def is_unanswered(self, log: Log) -> bool:
        """Return whether no broker answered the last time that the cursor was read."""
        return log in self._unanswered

    def learnt_lately(self, log: Log) -> bool:
        """Return whether the cursor was read so recently that only a special reason justifies another read."""
        return time.monotonic() < self._learnt.get(log, 0.0) + LEARN_INTERVAL_S

    def take_over(self, log: Log, acked: BatchAcks) -> None:
        """Adopt these acks, so that their messages are not delivered even if the broker has forgotten the acks."""
        self._unacked[log].learn(acked)
        self._learnt[log] = time.monotonic()

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store positions and acked ranges. Return once the broker has written them; wait out an outage if need be."""
        deadline = Deadline(timeout)
        stores = [
            partial(retry_while_unreachable, partial(self._store, log, deadline), deadline)
            for log, state in positions.items()
            if log in self._natives and self._unacked[log].take(state)
        ]
        self._connection.calls.complete(stores, timeout)

    def _store(self, log: Log, deadline: Deadline) -> None:
        unacked, native = self._unacked[log], self._natives[log]
        ack = partial(unacked.ack, native)
        if self._connection.admin is None:
            ack_and_ask(self._connection, native, ack, deadline)
        else:
            there = ack_and_wait(
                self._connection, log, self._group, unacked.whole, ack, deadline,
                consumer=native, together=unacked.to_ack <= MAX_ACKS_TOGETHER,
            )  # fmt: skip
            if there is not None:
                self._store_parts(log, there.mark, deadline)
        if not deadline.expired:  # after the deadline, the next commit may have begun
            unacked.stored()

    def _store_parts(self, log: Log, mark: Entry, deadline: Deadline) -> None:
        """Store the acks of partly acked batches. They are valid while everything is acked up to the mark."""
        unacked = self._unacked[log]
        if not unacked.whole and unacked.changed and mark > self._written.get(log, NOTHING_ACKED):
            CursorWrites.of(self._connection, log, self._group, deadline).wait([])
        if unacked.changed:
            left = max(0.1, deadline.remaining())
            group_notes.add_batch_acks(self._connection, self._group, log, unacked.changed, mark, left)
        if unacked.whole or unacked.changed:
            self._written[log] = mark


def _is_answer(asked: Future[Cursor | None]) -> bool:
    """Return whether a broker returned the group's cursor, or will always refuse it to this role.

    A broker that reports no such group or topic is not ready yet: the group has a member.
    """
    if asked.cancelled():
        return False
    if isinstance(asked.exception(), mqplug.AccessDenied | mqplug.AuthError):
        return True
    return asked.exception() is None and asked.result() is not None
