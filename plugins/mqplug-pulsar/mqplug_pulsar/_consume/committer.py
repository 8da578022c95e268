"""Stores the acks of a group member: which deliveries are acked, and when the broker has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mqplug import Log
from mqplug.spi import Deadline, GroupPosition
from mqplug_pulsar._admin import subscriptions
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.unacked import Unacked


class Committer:
    """The acks of one member on all its logs."""

    def __init__(self, connection: PulsarConnection, group: str, member: str) -> None:
        self._connection = connection
        self._group = group
        self._member = member
        self._natives: dict[Log, Any] = {}
        self._unacked: dict[Log, Unacked] = {}

    def opened(self, log: Log, native: Any) -> None:
        """Store the acks of a log through this native consumer from now on, and forget earlier deliveries."""
        self._natives[log] = native
        self._unacked[log] = Unacked()

    def unacked(self, log: Log) -> Unacked:
        """Return the deliveries of a log."""
        return self._unacked[log]

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Store positions and acked ranges, and return when the broker has written them."""
        deadline = Deadline(timeout)
        stores = [
            partial(self._store, log, state, deadline)
            for log, state in positions.items()
            if log in self._natives and self._unacked[log].take(state)
        ]
        self._connection.calls.complete(stores, timeout)

    def _store(self, log: Log, state: GroupPosition, deadline: Deadline) -> None:
        unacked = self._unacked[log]
        ack = partial(unacked.ack, self._natives[log])
        if self._connection.admin is None:
            ack()
        else:
            subscriptions.ack_and_wait(self._connection, log, self._group, self._member, ack, deadline)
            if unacked.moved and state.position.coordinates[2] > 0:
                left = max(0.1, deadline.remaining())
                subscriptions.note_position(self._connection, self._group, state.position, left)
        if not deadline.expired:  # later, the next commit may be under way
            unacked.stored()
