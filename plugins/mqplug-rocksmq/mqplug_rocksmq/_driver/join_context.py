"""Where a joining member comes from: its process, and what it still has from a previous owner of the store."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mqplug import Log
from mqplug.spi import Bell, Numbers
from mqplug.spi.groups import member_name


class JoinContext(NamedTuple):
    """The messages a joining member still has from a previous owner, and the bell that wakes one of another process.

    ``process`` is the id of its process on this host, None where the system does not report it.
    """

    holding: Mapping[Log, Sequence[Numbers]] = {}
    elsewhere: Bell | None = None
    process: int | None = None

    def new_name(self) -> str:
        """Return a new name for the member, by which an operator finds its process."""
        return member_name(os.getpid() if self.elsewhere is None else self.process)


NEW_MEMBER: Final = JoinContext()

THIS_HOST: Final = socket.gethostname()  # all processes of a store are on one host
