"""Consumers: readers, and members of groups in each mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from mqplug._model.batch import Batch
from mqplug._model.errors import Error, NotAssigned, TopicNotFound
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._groups import is_acked
from mqplug.memory._partition import Partition
from mqplug.spi import ConsumerDriver, ConsumerOptions, GroupPosition, Listener, Numbers, Settlement
from mqplug.spi.groups import Leases, Seat


class MemoryConsumer(ConsumerDriver):
    """A consumer that reads its logs from its own positions, and waits on the store for more."""

    def __init__(self, connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> None:
        self._connection = connection
        self._store = connection.store
        self._listener = listener
        self._prefetch = options.prefetch_bytes
        self._positions: dict[Log, Numbers] = {}
        self._paused: set[Log] = set()
        self._woken = False
        self._group = options.group
        self._seat = self._join(connection, options) if options.group is not None else None
        if self._seat is None and isinstance(options.start, Mapping):
            self._positions = {log: options.start[log].coordinates for log in options.logs}

    def _join(self, connection: MemoryConnection, options: ConsumerOptions) -> Seat:
        name = options.group or ""
        with self._store.changed:
            seat = self._store.group(name).join(options, self.wake)
            try:
                connection.start_group(name, options)
            except BaseException:
                seat.leave()
                raise
            return seat

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        with self._store.changed:
            if self._seat is not None:
                self._connection.start_group(options.group or "", options)
                self._seat.want(options.logs)
                return
            self._drop(self._positions.keys() - set(options.logs))
            start = options.start if isinstance(options.start, Mapping) else {}
            self._positions |= {log: start[log].coordinates for log in options.logs if log not in self._positions}

    # reading -----------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self.tend(timeout)
        with self._store.changed:
            batches = self._read(most)
            if not batches and timeout > 0 and not self._woken:
                self._store.wait(self._longest_wait(timeout))
                batches = self._read(most)
            self._woken = False
            return batches

    _shares = False
    """Whether the time of a message begins with its poll: then a poll takes those of one log, which are handed out."""

    def _longest_wait(self, timeout: float) -> float:
        """Return the seconds to wait for a change of the store."""
        return timeout

    def _read(self, most: int) -> list[Batch]:
        batches: list[Batch] = []
        for log in [log for log in self._positions if log not in self._paused]:
            try:
                batch = self._next(log, most)
            except Error:
                if batches:
                    break  # the next poll raises it again
                raise
            if batch is None:
                continue
            batches.append(batch)
            most -= len(batch)
            following = batch.next_position.coordinates
            del self._positions[log]  # moved to the end, so that every log gets its turn
            self._positions[log] = following  # no call in between, so that no Ctrl-C can interrupt
            if most <= 0 or self._shares:
                break
        return batches

    def _next(self, log: Log, most: int) -> Batch | None:
        partition, position = self._store.partition(log), self._positions[log]
        if position < partition.low:
            position = self._after_the_gap(partition, position)
        return partition.read(position, most, self._prefetch)

    def _after_the_gap(self, partition: Partition, position: Numbers) -> Numbers:
        """Return where to continue after retention removed messages, or raise ``PositionLost``."""
        if self._store.personality.reports_loss or (self._group is None and partition.rows.places):
            raise partition.lost(position)
        return position if self._group is None else partition.low

    def wake(self) -> None:
        with self._store.changed:
            self._woken = True
            self._store.changed.notify_all()

    def pause(self, logs: Sequence[Log]) -> None:
        self._paused |= set(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        self._paused -= set(logs)

    # the group ---------------------------------------------------------------------------------------------

    def tend(self, timeout: float) -> None:
        if self._seat is None:
            return
        leaving, taken = self._seat.changes()
        if leaving:
            self.commit(self._listener.revoked(leaving), timeout)
            self._drop(leaving)
            self._seat.release(leaving)
        if taken:
            positions = self._stored(taken)
            self._hold(taken, positions)
            self._listener.assigned(positions)

    def _hold(self, logs: Iterable[Log], positions: Mapping[Log, GroupPosition]) -> None:
        """Read these logs from these positions on. One without a position was deleted, which a read reports."""
        self._positions |= {log: positions[log].position.coordinates if log in positions else () for log in logs}

    def _drop(self, logs: Iterable[Log]) -> None:
        for log in logs:
            self._positions.pop(log, None)
            self._paused.discard(log)

    def _stored(self, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        """Return the group's positions in the logs that exist. In a recreated one, it begins at the first message."""
        logs = list(logs)
        with self._store.changed:
            stored = self._store.positions(self._group or "", logs)
            for log in [log for log in logs if log not in stored]:
                with suppress(TopicNotFound):
                    stored[log] = GroupPosition(Position(log, self._store.partition(log).low))
            return stored

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._store.changed:
            self._check_seek(positions)
            self._positions |= {log: position.coordinates for log, position in positions.items()}
            if self._group is not None:
                self._store.group(self._group).seek(positions)

    def _check_seek(self, positions: Mapping[Log, Position]) -> None:
        if missing := [log for log in positions if log not in self._positions]:
            raise NotAssigned(f"this consumer does not hold {missing[0]!r}")
        if self._store.personality.early_errors:
            for log in positions:
                self._store.partition(log)

    def membership(self) -> MemoryConsumer:
        return self

    def holds(self, log: Log) -> bool:
        """Return whether this member still has a log. Needs the store's lock."""
        return log in self._positions

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if self._group is not None:
            with self._store.changed:
                self._store.store_positions(self._group, positions)

    def close(self, timeout: float) -> None:
        if self._seat is not None:
            self._seat.leave()
        self._positions.clear()


FAILOVER_S = 1.5  # how long a member with unacked messages keeps a partition that moves to another member


class FailoverConsumer(MemoryConsumer):
    """A member that holds all logs in the core's view, while one member at a time gets the messages of each.

    A member that takes over a partition gets all its unacked messages, except the ones that it already has.
    """

    def __init__(self, connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> None:
        super().__init__(connection, options, listener)
        self._assigned: set[Log] = set()  # in the core's view
        self._unacked: dict[Log, set[Numbers]] = defaultdict(set)
        self._leaving: dict[Log, float] = {}  # the latest time at which each log goes to its next member

    def tend(self, timeout: float) -> None:
        if self._seat is None:
            return
        leaving, taken = self._seat.changes()
        self._release(self._seat, leaving)
        self._hold(taken, self._stored(taken))
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
        stored = self._store.positions(self._group or "", [log]).get(log)  # None: the topic was recreated
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


class MemorySharedConsumer(MemoryConsumer):
    """A member that takes messages that no other member has, according to the lease table of each log."""

    _shares = True

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
        """Do nothing, because members settle messages and have no positions."""

    def close(self, timeout: float) -> None:
        with self._store.changed:
            self._store.group(self._group or "").leave(self)
            super().close(timeout)
            self._store.changed.notify_all()
