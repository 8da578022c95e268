"""Tools for backends that keep groups themselves: rosters for partitions, leases for messages, and positions."""

from __future__ import annotations

from mqplug.spi.groups._leases import Lease, Leases, Recalled, Upcoming, tidy
from mqplug.spi.groups._roster import Roster, Seat, member_name

__all__ = ["Lease", "Leases", "Recalled", "Roster", "Seat", "Upcoming", "member_name", "tidy"]
