"""What a program tells the service manager that started it, such as systemd."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

_VARIABLE = "NOTIFY_SOCKET"


def tell_service_manager(*lines: str) -> None:
    """Send lines such as ``READY=1`` to the service manager, if one started this process and listens.

    Only a unit with ``Type=notify`` listens. A name that begins with ``@`` is in Linux' abstract namespace.
    """
    address = os.environ.get(_VARIABLE)
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto("\n".join(lines).encode(), address)
