"""Where commands find a store: open in another process, which is asked then, or closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqplug import AlreadyOpen, ConfigError
from mqplug_rocksmq._engine.directory import examine
from mqplug_rocksmq._engine.ownership import Ownership, owner_of
from mqplug_rocksmq._processes.client_connection import ClientConnection
from mqplug_rocksmq._processes.frames import FrameHeader


def existing_store(path: Path, *, named: bool = True) -> Path:
    """Return the path if a store is there, even if its own file is damaged where it need not be *named*."""
    if not path.exists():
        raise ConfigError(f"there is no store at {path}", fix="Check the path")
    examine(path, create=False, named=named)
    return path.resolve()


def ask_owner(path: Path, request: FrameHeader, timeout: float) -> FrameHeader | None:
    """Ask the process that has the store open, and return its answer; None if no process has."""
    try:
        Ownership(path).release()
    except AlreadyOpen as refused:
        owner = owner_of(path)
        if owner is None or owner.socket is None:
            raise AlreadyOpen(refused.message, fix="Close it there, and try again", backend="rocksmq") from None
        return _ask(owner.socket, path, request, timeout)
    return None


def _ask(address: str, path: Path, request: FrameHeader, timeout: float) -> FrameHeader:
    link = ClientConnection(address, path, min(timeout, 10))
    try:
        return link.ask(request, timeout=timeout)[0]
    finally:
        link.close()


@contextmanager
def hold_closed_store(path: Path) -> Iterator[None]:
    """Keep everybody else from opening a store that nobody has open."""
    ownership = Ownership(path)
    try:
        yield
    finally:
        ownership.release()
