"""Acks of whole entries only, as Pulsar does by default."""

from __future__ import annotations

from collections.abc import Hashable

from mqplug.memory._partition import Partition
from mqplug.spi import GroupPosition, Numbers, Settlement
from mqplug.spi.groups import Leases


class EntryAcks:
    """Acked messages of incomplete entries. Their members keep them until the whole entry is acked."""

    def __init__(self) -> None:
        self._acked: dict[Numbers, dict[Numbers, Hashable]] = {}  # by entry; ledger numbers are unique across logs

    def settle(self, table: Leases, partition: Partition, member: Hashable, settled: Settlement) -> int:
        """Ack the entries that are now complete. A returned message takes the acked ones of its entry with it.

        Return how many were acked too late: another member has taken them.
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
        """Return whether the whole entry is acked now. An ack does not count if its member lost the message."""
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
