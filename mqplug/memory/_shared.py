"""Group members that share the messages of all logs: the modes shared and key_shared."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from mqplug._model.batch import Batch
from mqplug._model.errors import TopicNotFound
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._consumer import MemoryConsumer
from mqplug.spi import ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug.spi.groups import Leases


class MemorySharedConsumer(MemoryConsumer):
    """A member that takes messages which no other member has, by the lease table of each log."""

    def __init__(self, connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> None:
        super().__init__(connection, options, listener)
        self._max_processing = options.max_processing

    def _longest_wait(self, timeout: float) -> float:
        now = self._store.clock.monotonic()
        due = (self._table(log).next_due() for log in self._positions)
        return min([timeout, *(max(0.0, each - now) for each in due if each is not None)])

    def _next(self, log: Log, most: int) -> Batch | None:
        partition, table = self._store.partition(log), self._table(log)
        if table.wanted.coordinates < partition.low:
            if self._store.personality.reports_loss:
                raise partition.lost(table.wanted.coordinates)
            table.trim(Position(log, partition.low))
        leases = table.take(self, most, partition.upcoming, self._max_processing)
        return partition.leased(leases) if leases else None

    def _table(self, log: Log) -> Leases:
        return self._store.group(self._group or "").table(log)

    def stop_clock(self, log: Log, coordinates: Numbers) -> None:
        with self._store.changed, suppress(TopicNotFound):
            self._table(log).stop_clock(self, coordinates)

    def settle(self, settled: Mapping[Log, Settlement], timeout: float) -> int:
        with self._store.changed:
            entries, late = self._store.group(self._group or "").entries, 0
            for log, each in settled.items():
                if entries is None:
                    late += self._table(log).settle(self, each)
                else:
                    late += entries.settle(self._table(log), self._store.partition(log), self, each)
            self._store.changed.notify_all()
            return late

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        super().seek(positions, timeout)
        with self._store.changed:
            self._store.changed.notify_all()

    def pass_over(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Count the removed messages before these positions as acked."""
        with self._store.changed:
            for log, position in positions.items():
                self._table(log).trim(position)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Do nothing: members settle messages, and have no positions of their own."""

    def close(self, timeout: float) -> None:
        with self._store.changed:
            self._store.group(self._group or "").leave(self)
            super().close(timeout)
            self._store.changed.notify_all()
