"""The process at the other end of a Unix socket."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Final

_CREDENTIALS: Final = Struct("3i")


def user_of(connection: socket.socket) -> int | None:
    """Return the user of the process at the other end, or None where the system does not report it."""
    found = _credentials(connection)
    return None if found is None else found[1]


def process_of(connection: socket.socket) -> int | None:
    """Return the id of the process at the other end, or None where the system does not report it."""
    found = _credentials(connection)
    return None if found is None else found[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(raw)
    return process, user, group
