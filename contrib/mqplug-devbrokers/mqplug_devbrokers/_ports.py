"""Choosing loopback ports that stay ours while a broker is down."""

from __future__ import annotations

import json
import random
import socket
from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from pathlib import Path

# Below what the kernel gives to outgoing connections, which could else take the port of a killed server.
FIRST_PORT, LAST_PORT = 15000, 31999


def unused_port() -> int:
    """A port on loopback that nobody listens on.

    Not that of `mqplug.testing`: to start a broker from a command line takes no test kit, which is slow to import.
    """
    for port in random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT + 1), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise BrokerError(f"no free port was found between {FIRST_PORT} and {LAST_PORT}")


def choose_ports(file: Path, names: list[str], main: int) -> dict[str, int]:
    """One port for each name, the first of them `main` unless it is 0; remembered in `file`.

    A directory keeps its ports, because some servers refuse data that was written under another address.
    """
    ports: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        ports.setdefault(name, unused_port())
    if main:
        ports[names[0]] = main
    file.write_text(json.dumps(ports))
    return ports
