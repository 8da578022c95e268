"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Final

_CREDENTIALS: Final = Struct("3i")


def user_of(connection: socket.socket) -> int | None:
    """Return the user whose process is at the other end; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user
