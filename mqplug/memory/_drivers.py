"""The memory backend's drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mqplug._batch import Batch
from mqplug._errors import ConsumerBusy, Error, GroupNotFound, NotAssigned
from mqplug._ids import MessageId
from mqplug._log import Log
from mqplug._position import AtTime, Earliest, Last, Latest, Position
from mqplug._watermarks import Bounds, Watermarks
from mqplug.memory._store import Partition, Store
from mqplug.spi import Capabilities, ConsumerOptions, GroupPosition, Listener, Seat, Sending, SymbolicStart


class MemoryConnection:
    """A client's hold on a store."""

    def __init__(self, store: Store, capabilities: Capabilities) -> None:
        self.store = store
        self.capabilities = capabilities

    def after(self, message_id: MessageId) -> Position:
        return Position(message_id.log, (message_id.coordinates[0] + 1,))

    def health(self, timeout: float) -> None:
        """Memory is always well."""

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.store if isinstance(self.store, kind) else None

    def close(self, timeout: float) -> None:
        """Nothing to let go of: a named store stays for the next client."""

    def resolve(self, start: SymbolicStart, logs: Sequence[Log]) -> dict[Log, Position]:
        with self.store.changed:
            return {log: Position(log, (_offset(start, self.store.partition(log)),)) for log in logs}

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position]) -> dict[Log, Watermarks]:
        with self.store.changed:
            return {log: _watermarks(self.store.partition(log), since.get(log)) for log in logs}

    def bounds(self, logs: Sequence[Log]) -> dict[Log, Bounds]:
        with self.store.changed:
            return {log: _bounds(self.store.partition(log)) for log in logs}

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition]) -> None:
        with self.store.changed:
            if len(self.store.roster(group)):
                raise ConsumerBusy(f"the group {group!r} has members", fix="Close its consumers first")
            self.store.store_positions(group, dict(positions))

    def start_group(self, group: str, options: ConsumerOptions) -> None:
        """Store the start for each log where the group has no position yet."""
        with self.store.changed:
            known = self.store.positions(group, options.logs)
            if options.must_exist and not known:
                raise GroupNotFound(f"the group {group!r} has no position here", fix="Drop must_exist=True")
            missing = [log for log in options.logs if log not in known]
            wanted = options.start if isinstance(options.start, Mapping) else self.resolve(options.start, missing)
            self.store.store_positions(group, {log: GroupPosition(wanted[log]) for log in missing})


class MemoryProducer:
    """Stores at once, in the caller's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._store.changed:
            for sending in sendings:
                try:
                    partition = self._store.topic(sending.topic)[sending.partition]
                except Error as error:
                    sending.failed(error)
                else:
                    sending.stored(partition.log, (partition.append(sending.record),))
            self._store.changed.notify_all()

    def pump(self, timeout: float) -> None:
        """Nothing is ever on its way."""

    def flush(self, timeout: float) -> None:
        """Nothing is ever on its way."""

    def close(self, timeout: float) -> None:
        """Nothing to let go of."""


class MemoryConsumer:
    """Reads where it stands, and waits on the store for more."""

    def __init__(self, connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> None:
        self._store = connection.store
        self._group = options.group
        self._listener = listener
        self._offsets: dict[Log, int] = {}
        self._woken = False
        self._seat: Seat | None = None
        if options.group is None and isinstance(options.start, Mapping):
            self._offsets = {log: options.start[log].coordinates[0] for log in options.logs}
        if options.group is not None:
            connection.start_group(options.group, options)
            self._seat = self._store.roster(options.group).join(options.logs, self.wake)

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self.tend(timeout)
        with self._store.changed:
            batches = self._read(most)
            if not batches and timeout > 0 and not self._woken:
                self._store.changed.wait(timeout)
                batches = self._read(most)
            self._woken = False
            return batches

    def wake(self) -> None:
        with self._store.changed:
            self._woken = True
            self._store.changed.notify_all()

    def tend(self, timeout: float) -> None:
        if self._seat is None or self._group is None:
            return
        leaving, taken = self._seat.changes()
        if leaving:
            self.commit(self._listener.revoked(leaving), timeout)
            for log in leaving:
                self._offsets.pop(log, None)
            self._seat.release(leaving)
        if taken:
            with self._store.changed:
                positions = self._store.positions(self._group, taken)
            self._offsets |= {log: stored.position.coordinates[0] for log, stored in positions.items()}
            self._listener.assigned(positions)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        with self._store.changed:
            if missing := [log for log in positions if log not in self._offsets]:
                raise NotAssigned(f"{missing[0]!r} is not held by this consumer")
            self._offsets |= {log: position.coordinates[0] for log, position in positions.items()}
            if self._group is not None:
                moved = {log: GroupPosition(position) for log, position in positions.items()}
                self._store.store_positions(self._group, moved)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if self._group is None:
            return
        with self._store.changed:
            self._store.store_positions(self._group, dict(positions))

    def close(self, timeout: float) -> None:
        if self._seat is not None:
            self._seat.leave()
        self._offsets.clear()

    def _read(self, most: int) -> list[Batch]:
        batches: list[Batch] = []
        for log in list(self._offsets):
            batch = self._store.partition(log).read(self._offsets[log], most)
            if batch is None:
                continue
            batches.append(batch)
            most -= len(batch)
            self._offsets[log] = self._offsets.pop(log) + len(batch)  # to the end: every log gets its turn
            if most <= 0:
                break
        return batches


def _offset(start: SymbolicStart, partition: Partition) -> int:
    match start:
        case Earliest():
            return partition.low
        case Latest():
            return partition.high
        case AtTime(milliseconds):
            return partition.at_time(milliseconds)
        case Last(count):
            return max(partition.low, partition.high - count)


def _watermarks(partition: Partition, since: Position | None) -> Watermarks:
    low, high = Position(partition.log, (partition.low,)), Position(partition.log, (partition.high,))
    begin = partition.low if since is None else max(partition.low, since.coordinates[0])
    return Watermarks(low, high, max(0, partition.high - begin), exact=True)


def _bounds(partition: Partition) -> Bounds:
    if partition.low == partition.high:
        return Bounds(None, None)
    return Bounds(MessageId(partition.log, (partition.low,)), MessageId(partition.log, (partition.high - 1,)))
