"""Acks where only whole entries can be acked, as on a Pulsar with its default settings."""

from __future__ import annotations

from collections.abc import Hashable

from mqplug.memory._partition import Partition
from mqplug.spi import GroupPosition, Numbers, Settlement
from mqplug.spi.groups import Leases


class EntryAcks:
    """The acks of messages whose entries are not completely acked yet; until then their members keep the messages."""

    def __init__(self) -> None:
        self._acked: dict[Numbers, dict[Numbers, Hashable]] = {}  # by entry; ledgers are numbered across all logs

    def settle(self, table: Leases, partition: Partition, member: Hashable, settled: Settlement) -> None:
        """Ack what completes an entry. A returned message takes the acks of its entry back."""
        for coordinates in settled.acked:
            self._acked.setdefault(coordinates[:2], {})[coordinates] = member
            if self._is_complete(table, partition, coordinates[:2]):
                self._close(table, coordinates[:2], returned=False)
        table.settle(member, Settlement((), settled.returned))
        for coordinates, _ in settled.returned:
            self._close(table, coordinates[:2], returned=True)

    def _is_complete(self, table: Leases, partition: Partition, entry: Numbers) -> bool:
        """Return whether everything that was open in an entry is acked; what a member lost meanwhile is not."""
        acked = {at: member for at, member in self._acked[entry].items() if table.holds(member, at)}
        self._acked[entry] = acked
        stands = table.state()
        return all(at in acked or is_acked(stands, at) for at in partition.entry(entry))

    def _close(self, table: Leases, entry: Numbers, *, returned: bool) -> None:
        for coordinates, member in self._acked.pop(entry, {}).items():
            one = Settlement((), [(coordinates, 0.0)]) if returned else Settlement([coordinates])
            table.settle(member, one)


def is_acked(stands: GroupPosition, coordinates: Numbers) -> bool:
    """Return whether a group with this position has acked this message."""
    return coordinates < stands.position.coordinates or any(
        first <= coordinates <= last for first, last in stands.acked
    )
