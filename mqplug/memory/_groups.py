"""A store's groups: their positions, their members, and which member has which message.

With Pulsar's personality, acks are stored only for whole entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._partition import Partition
from mqplug.memory._personality import Personality
from mqplug.spi import ConsumerOptions, GroupPosition, Numbers, Settlement
from mqplug.spi.groups import Leases, Roster, Seat


class Group:
    """One group. Calls need the store's lock, except the roster's, which has its own."""

    def __init__(
        self, personality: Personality, partition: Callable[[Log], Partition], now: Callable[[], float]
    ) -> None:
        self.roster = Roster()
        self.entries = EntryAcks() if personality.whole_entries else None
        self._personality = personality
        self._partition = partition
        self._now = now
        self._positions: dict[Log, GroupPosition] = {}
        self._tables: dict[Log, Leases] = {}

    def __contains__(self, log: Log) -> bool:
        return log in self._positions

    @property
    def logs(self) -> list[Log]:
        """The logs where the group has a position."""
        return list(self._positions)

    def positions(self, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        """Return the group's positions in the logs where it has one."""
        return {log: self._position(log) for log in logs if log in self._positions}

    def _position(self, log: Log) -> GroupPosition:
        table = self._tables.get(log)
        return table.state() if table is not None else self._positions[log]

    def commit(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Store positions of members that hold logs exclusively."""
        for log, wanted in positions.items():
            partition = self._partition(log)
            self._positions[log] = self._personality.store(self._positions.get(log), wanted, partition)

    def move(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Move the group, and forget its acks and leases."""
        for log in positions:
            self._tables.pop(log, None)
            self._positions.pop(log, None)
        self.commit(positions)

    def seek(self, positions: Mapping[Log, Position]) -> None:
        """Move the group for one of its members and all that share the log with it."""
        for log, position in positions.items():
            self._positions[log] = GroupPosition(position)
            if (table := self._tables.get(log)) is not None:
                table.seek(position)

    def forget(self, logs: Iterable[Log]) -> None:
        """Forget deleted logs."""
        for log in logs:
            self._positions.pop(log, None)
            self._tables.pop(log, None)

    def table(self, log: Log) -> Leases:
        """Return the lease table of a log, for the current mode of the members."""
        by_key = self.roster.mode == "key_shared"
        table = self._tables.get(log)
        self._partition(log)
        if table is None or table.by_key != by_key:
            table = self._tables[log] = Leases(self._position(log), by_key=by_key, now=self._now)
        return table

    def leave(self, member: Hashable) -> None:
        """Free everything that this member has, for the others."""
        for table in self._tables.values():
            table.leave(member)

    # members -----------------------------------------------------------------------------------------------

    def join(self, options: ConsumerOptions, wake: Callable[[], None]) -> Seat:
        """Add a member. One that holds logs exclusively continues where members that shared them left off."""
        seat = self.roster.join(options.logs, wake, options.mode)
        if not options.shares:
            self._positions = self.positions(self._positions)
            self._tables.clear()
        return seat


class EntryAcks:
    """Acked messages of incomplete entries. Their members keep them until the whole entry is acked."""

    def __init__(self) -> None:
        self._acked: dict[Numbers, dict[Numbers, Hashable]] = {}  # by entry; ledger numbers are unique across logs

    def settle(self, table: Leases, partition: Partition, member: Hashable, settled: Settlement) -> int:
        """Ack the entries that are now complete. A returned message also returns the acked ones of its entry.

        Return how many were acked too late, because another member has taken them.
        """
        late = table.settle(member, Settlement([at for at in settled.acked if not table.holds(member, at)]))
        for coordinates in settled.acked:
            self._acked.setdefault(coordinates[:2], {})[coordinates] = member
            if self._is_complete(table, partition, coordinates[:2]):
                self._close(table, coordinates[:2], returned=False)
        table.settle(member, Settlement((), settled.returned))
        for coordinates, _ in settled.returned:
            self._close(table, coordinates[:2], returned=True)
        return late

    def _is_complete(self, table: Leases, partition: Partition, entry: Numbers) -> bool:
        """Return whether the whole entry is acked. An ack does not count if its member lost the message."""
        acked = {at: member for at, member in self._acked[entry].items() if table.holds(member, at)}
        self._acked[entry] = acked
        stored = table.state()
        return all(at in acked or is_acked(stored, at) for at in partition.entry(entry))

    def _close(self, table: Leases, entry: Numbers, *, returned: bool) -> None:
        for coordinates, member in self._acked.pop(entry, {}).items():
            one = Settlement((), [(coordinates, 0.0)]) if returned else Settlement([coordinates])
            table.settle(member, one)


def is_acked(stored: GroupPosition, coordinates: Numbers) -> bool:
    """Return whether a group with this position has acked the message."""
    return coordinates < stored.position.coordinates or any(
        first <= coordinates <= last for first, last in stored.acked
    )
