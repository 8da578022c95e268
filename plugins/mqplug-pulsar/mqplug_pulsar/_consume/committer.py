"""Stores the acks of a group member: which deliveries are acked, and when the broker has them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Deadline, GroupPosition, Numbers
from mqplug_pulsar._admin import group_cursors, group_notes
from mqplug_pulsar._admin.ack_confirmation import MAX_ACKS_TOGETHER, CursorWrites, ack_and_ask, ack_and_wait
from mqplug_pulsar._cluster.broker_statistics import Cursor
from mqplug_pulsar._cluster.client_calls import retry_while_unreachable
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.unacked import Unacked
from mqplug_pulsar._format.note_texts import NOTHING_ACKED, BatchAcks, Entry

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
        self._written: dict[Log, Entry] = {}  # up to which all is acked, as far as the broker is known to have written

    def opened(self, log: Log, native: Any) -> None:
        """Store the acks of a log through this native consumer from now on, and forget earlier deliveries."""
        self._natives[log] = native
        self._unacked[log] = Unacked()
        self._learnt.pop(log, None)
        self._cursors.pop(log, None)
        self._written.pop(log, None)

    def reopened(self, log: Log, native: Any, wanted: Numbers | None) -> None:
        """Store the acks of a log through this native consumer. Messages from ``wanted`` on were not delivered."""
        self._natives[log] = native
        self._unacked[log].forget_from(wanted)

    def unacked(self, log: Log) -> Unacked:
        """Return the deliveries of a log."""
        return self._unacked[log]

    def can_learn(self, log: Log) -> bool:
        """Return whether a broker answers what ``learn`` asks. Do not wait for it: ask, and look the next time."""
        if self._connection.admin is None:
            return True
        asked = self._asked.pop(log, None) or self._ask(log)
        if not asked.done():
            self._asked[log] = asked
            return False
        return _is_answer(asked)

    def learn(self, log: Log) -> Cursor | None:
        """Read what other members acked. Return where the group stands; None if that cannot be read."""
        there = None
        self._unanswered.discard(log)
        if self._connection.admin is not None:
            asked = self._ask(log)
            with suppress(mqplug.Error, _pulsar.PulsarException, TimeoutError):  # then acked messages may come again
                there = asked.result(LEARN_TIMEOUT_S)
            if not (asked.done() and _is_answer(asked)):
                self._unanswered.add(log)
        self.take_over(log, there.acks if there is not None else BatchAcks())
        if there is not None:
            self._cursors[log] = there
        return there

    def _ask(self, log: Log) -> Future[Cursor | None]:
        ask = partial(group_cursors.cursor, self._connection, log, self._group, LEARN_TIMEOUT_S)
        return self._connection.calls.start(ask)

    def learnt(self, log: Log) -> Cursor | None:
        """Return where the group stood when that was last read; None if it was not."""
        return self._cursors.get(log)

    def is_unanswered(self, log: Log) -> bool:
        """Return whether no broker knew that when it was to be read the last time."""
        return log in self._unanswered

    def learnt_lately(self, log: Log) -> bool:
        """Return whether that was so short ago that it need not be repeated without a reason."""
        return time.monotonic() < self._learnt.get(log, 0.0) + LEARN_INTERVAL_S

    def take_over(self, log: Log, acked: BatchAcks) -> None:
        """Deliver nothing that is acked here, even if the broker does not know it."""
        self._unacked[log].learn(acked)
        self._learnt[log] = time.monotonic()

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store positions and acked ranges, and return when the broker has written them, however late it answers."""
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
        if not deadline.expired:  # later, the next commit may be under way
            unacked.stored()

    def _store_parts(self, log: Log, mark: Entry, deadline: Deadline) -> None:
        """Store the acks of batches that are acked in part, which count while all is acked up to the mark."""
        unacked = self._unacked[log]
        if not unacked.whole and unacked.changed and mark > self._written.get(log, NOTHING_ACKED):
            CursorWrites.of(self._connection, log, self._group, deadline).wait([])
        if unacked.changed:
            left = max(0.1, deadline.remaining())
            group_notes.add_batch_acks(self._connection, self._group, log, unacked.changed, mark, left)
        if unacked.whole or unacked.changed:
            self._written[log] = mark


def _is_answer(asked: Future[Cursor | None]) -> bool:
    """Return whether a broker said where the group stands, or will never say it to this role.

    One that knows no such group, or no such topic, is not ready: the group has a member.
    """
    if asked.cancelled():
        return False
    if isinstance(asked.exception(), mqplug.AccessDenied | mqplug.AuthError):
        return True
    return asked.exception() is None and asked.result() is not None
