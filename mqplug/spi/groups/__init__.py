"""Tools for backends that keep groups themselves: which member has which partition or message, and the group's
position.
"""

from __future__ import annotations

from mqplug.spi.groups._leases import Lease, Leases, Recalled, Upcoming, tidy
from mqplug.spi.groups._roster import Roster, Seat, member_name

__all__ = ["Lease", "Leases", "Recalled", "Roster", "Seat", "Upcoming", "member_name", "tidy"]
