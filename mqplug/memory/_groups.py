"""Groups: their positions, their members, and the lease tables of shared logs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._entries import EntryAcks
from mqplug.memory._partition import Partition
from mqplug.memory._personality import Personality
from mqplug.spi import ConsumerOptions, GroupPosition
from mqplug.spi.groups import Leases, Roster, Seat


class Group:
    """One group. The store's lock guards it, except the roster, which has its own."""

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
        """The logs where it has a position."""
        return list(self._positions)

    def positions(self, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        """Return its positions on those of the logs where it has one."""
        return {log: self._stands(log) for log in logs if log in self._positions}

    def _stands(self, log: Log) -> GroupPosition:
        table = self._tables.get(log)
        return table.state() if table is not None else self._positions[log]

    def commit(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Store the positions of members that hold logs for themselves."""
        for log, wanted in positions.items():
            partition = self._partition(log)
            self._positions[log] = self._personality.store(self._positions.get(log), wanted, partition)

    def move(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Move to these positions, whatever was acked or in hand."""
        for log in positions:
            self._tables.pop(log, None)
            self._positions.pop(log, None)
        self.commit(positions)

    def seek(self, positions: Mapping[Log, Position]) -> None:
        """Move one member, and all that share the log with it."""
        for log, position in positions.items():
            self._positions[log] = GroupPosition(position)
            if table := self._tables.get(log):
                table.seek(position)

    def forget(self, logs: Iterable[Log]) -> None:
        """Forget logs that were deleted."""
        for log in logs:
            self._positions.pop(log, None)
            self._tables.pop(log, None)

    def table(self, log: Log) -> Leases:
        """Return the lease table of a log, in the present mode of the members."""
        by_key = self.roster.mode == "key_shared"
        table = self._tables.get(log)
        self._partition(log)
        if table is None or table.by_key != by_key:
            table = self._tables[log] = Leases(self._stands(log), by_key=by_key, now=self._now)
        return table

    def leave(self, member: Hashable) -> None:
        """Give the messages of a member that leaves to others."""
        for table in self._tables.values():
            table.leave(member)

    # members -----------------------------------------------------------------------------------------------

    def join(self, options: ConsumerOptions, wake: Callable[[], None]) -> Seat:
        """Add a member. One that holds logs for itself begins where those that shared them left off."""
        seat = self.roster.join(options.logs, wake, options.mode)
        if not options.shares:
            self._positions = self.positions(self._positions)
            self._tables.clear()
        return seat
