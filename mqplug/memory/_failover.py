"""Group members that do not learn which of them reads a partition, as on Pulsar."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mqplug._model.batch import Batch
from mqplug._model.errors import NotAssigned
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._consumer import MemoryConsumer
from mqplug.memory._entries import is_acked
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Numbers
from mqplug.spi.groups import Seat

FAILOVER_S = 1.5  # how long a member with unacked messages keeps a partition that moves to another member


class FailoverConsumer(MemoryConsumer):
    """A member that holds all logs in the core's view, while one member at a time gets the messages of each.

    A member that takes over a partition gets all its unacked messages, except those that it already has.
    """

    def __init__(self, connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> None:
        super().__init__(connection, options, listener)
        self._assigned: set[Log] = set()  # in the core's view
        self._unacked: dict[Log, set[Numbers]] = defaultdict(set)
        self._leaving: dict[Log, float] = {}  # when each log goes to its next member at the latest

    def tend(self, timeout: float) -> None:
        if self._seat is None:
            return
        leaving, taken = self._seat.changes()
        self._release(self._seat, leaving)
        taking = self._stored(taken)
        self._positions |= {log: stored.position.coordinates for log, stored in taking.items()}
        fresh = self._seat.wanted - self._assigned
        if fresh:
            self._assigned |= fresh
            self._listener.assigned(self._stored(sorted(fresh, key=lambda log: (log.topic, log.partition))))

    def _release(self, seat: Seat, logs: Sequence[Log]) -> None:
        now = self._store.clock.monotonic()
        self._leaving = {log: self._leaving.get(log, now + FAILOVER_S) for log in logs}
        if due := [log for log, until in self._leaving.items() if until <= now or not self._unacked[log]]:
            self._drop(due)
            seat.release(due)

    def _next(self, log: Log, most: int) -> Batch | None:
        if log in self._leaving:
            return None
        batch = super()._next(log, most)
        if batch is None:
            return None
        stored = self._store.positions(self._group or "", [log]).get(log)  # None: the topic was created again
        unacked = self._unacked[log]
        places = enumerate(batch.coordinates)
        rows = [row for row, place in places if place not in unacked and not (stored and is_acked(stored, place))]
        unacked.update(batch.coordinates[row] for row in rows)
        return batch if len(rows) == len(batch) else batch.take(rows, batch.next_position)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._store.changed:
            if missing := [log for log in positions if log not in self._assigned]:
                raise NotAssigned(f"this consumer does not hold {missing[0]!r}")
            for log, position in positions.items():
                self._unacked.pop(log, None)
                if log in self._positions:
                    self._positions[log] = position.coordinates
            self._store.group(self._group or "").seek(positions)
            self._store.changed.notify_all()

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        super().commit(positions, timeout)
        with self._store.changed:
            for log, stored in positions.items():
                self._unacked[log] = {place for place in self._unacked[log] if not is_acked(stored, place)}
