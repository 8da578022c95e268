"""Reaches a store for one command: asks the process that has it open, or holds a closed store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqplug import AlreadyOpen, ConfigError
from mqplug_rocksmq._engine.directory import examine
from mqplug_rocksmq._engine.ownership import Ownership, read_owner
from mqplug_rocksmq._processes.client_connection import ClientConnection
from mqplug_rocksmq._processes.frames import FrameHeader

CONNECT_S = 10.0


def existing_store(path: Path, *, named: bool = True) -> Path:
    """Return the path if a store is there. Unless *named*, its identity file may be damaged."""
    if not path.exists():
        raise ConfigError(f"there is no store at {path}", fix="Check the path")
    examine(path, create=False, named=named)
    return path.resolve()


def ask_owner(path: Path, request: FrameHeader, timeout: float) -> FrameHeader | None:
    """Ask the process that has the store open, and return its answer, or None if no process has it open."""
    try:
        Ownership(path, reading=True).release()
    except AlreadyOpen as refused:
        owner = read_owner(path)
        if owner is None or owner.socket is None:
            raise AlreadyOpen(refused.message, fix="Close it there, and try again", backend="rocksmq") from None
        return _ask(owner.socket, path, request, timeout)
    return None


def _ask(address: str, path: Path, request: FrameHeader, timeout: float) -> FrameHeader:
    connection = ClientConnection(address, path, min(timeout, CONNECT_S))
    try:
        return connection.ask(request, timeout=timeout)[0]
    finally:
        connection.close()


@contextmanager
def hold_closed_store(path: Path) -> Iterator[None]:
    """Within, no other process can open a store that is closed."""
    ownership = Ownership(path, reading=True)
    try:
        yield
    finally:
        ownership.release()
