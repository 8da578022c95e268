"""Chooses loopback ports that no other program takes while a broker is down."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
from typing import TYPE_CHECKING

from mqplug_devbrokers._errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

# Below the ports of outgoing connections, one of which could otherwise take the port of a killed server.
FIRST_PORT, LAST_PORT = 15000, 31999
BLOCK_OF_A_PROCESS = 50
_given_ports: set[int] = set()  # some have no listener yet


def unused_port() -> int:
    """Return a loopback port on which no program listens, and which was not returned before.

    `mqplug_testing.free_port` does the same, but the test kit is slow to import.
    """
    for port in _candidates():
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        if _claimed(port):
            return port
    raise BrokerError(f"no free port was found between {FIRST_PORT} and {LAST_PORT}")


def _claimed(port: int) -> bool:
    """Claim a port for as long as this process lives. Return False if another process has claimed it.

    A server takes seconds until it listens. The claim is an abstract socket's name, which only Linux has.
    """
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0mqplug-devbrokers-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def _candidates() -> Iterator[int]:
    """Yield ports of this process's own block, then any. Processes that choose at the same time have other blocks.

    The first half of the block is for `mqplug_testing.free_port`.
    """
    chance = random.SystemRandom()
    end = FIRST_PORT + os.getpid() * BLOCK_OF_A_PROCESS % (LAST_PORT + 1 - FIRST_PORT) + BLOCK_OF_A_PROCESS
    yield from chance.sample(range(end - BLOCK_OF_A_PROCESS // 2, end), BLOCK_OF_A_PROCESS // 2)
    yield from chance.sample(range(FIRST_PORT, LAST_PORT + 1), 200)


def choose_ports(file: Path, names: list[str], main: int, taken: Collection[int] = ()) -> dict[str, int]:
    """Return a port for each name, the first of them `main` unless that is 0, and remember them in `file`.

    None of them is in `taken`, the ports of servers that have not started yet.

    A directory keeps its ports, because some servers refuse data that was written under another address.
    """
    ports: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    if main:
        ports[names[0]] = main
    for name in names:
        while name not in ports:
            port = unused_port()
            if port not in ports.values() and port not in taken:
                ports[name] = port
    file.write_text(json.dumps(ports))
    return ports
