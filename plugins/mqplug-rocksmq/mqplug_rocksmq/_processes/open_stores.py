"""The stores that this process has open: clients of one store share it, and the last to leave closes it."""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import AlreadyOpen, ConfigError, ConnectError
from mqplug_rocksmq._engine.directory import examine, make_directory
from mqplug_rocksmq._engine.ownership import Ownership, socket_path
from mqplug_rocksmq._processes.client_connection import ProtocolMismatch, TooManyConnections
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.server import StoreServer
from mqplug_rocksmq._store.store import Store, StoreSettings

_log = logging.getLogger("mqplug.rocksmq")
_lock = threading.Lock()
_open: dict[Path, _Owned] = {}
_inherited: list[_Owned] = []

OPEN_RETRY_S: Final = 5.0
EXIT_CLOSE_S: Final = 3.0  # seconds that the end of a program waits for a store that nobody closed


class _Owned:
    """A store that this process owns, with all that belongs to it."""

    def __init__(self, path: Path, settings: StoreSettings) -> None:
        self.users = 0
        self.ownership = Ownership(path)
        try:
            self.memberships = MemberTokens(path)
        except BaseException:
            self.ownership.release()
            raise
        try:
            self.store = Store(path, settings)
        except BaseException:
            self.memberships.close()
            self.ownership.release()
            raise
        self.server = self._serve(path)

    def _serve(self, path: Path) -> StoreServer | None:
        try:
            address = socket_path(path)
            server = StoreServer(self.store, address, self.memberships)
        except OSError as error:
            _log.warning("other processes cannot use the store %s: %s", path, error)
            return None
        self.ownership.announce(address)
        return server

    def close(self, timeout: float | None) -> None:
        """Close in such an order that guests see the end when another process can own the store."""
        if self.server:
            self.server.hush(timeout)
        try:
            self.store.close(timeout)
        finally:
            self.memberships.close()
            self.ownership.release()
            if self.server:
                self.server.close()

    def abandon(self) -> None:
        """In the child of a fork: let go of what is the parent's."""
        self.store.abandon()
        self.memberships.abandon()
        self.ownership.release()
        if self.server:
            self.server.abandon()


def open_store(path: Path, settings: StoreSettings, *, agree: bool = True) -> Store:
    """Return the store at *path*, owned by this process; to be given back with ``close_store``.

    Raises ``AlreadyOpen`` if another process owns it.
    """
    path = path.absolute()
    examine(path)
    make_directory(path)
    path = path.resolve()
    with _lock:
        owned = _open.get(path)
        if owned is None:
            owned = _open[path] = _Owned(path, settings)
        elif agree and owned.store.settings != settings:
            raise ConfigError(
                f"this process has the store {path} open with {owned.store.settings}, which differs from {settings}",
                fix="Use the same settings for all clients of one store",
            )
        owned.users += 1
        return owned.store


def close_store(store: Store, timeout: float | None = None) -> None:
    """Give a store back; the last one closes it."""
    with _lock:
        owned = _open.get(store.path)
        if owned is None or owned.store is not store:
            return
        owned.users -= 1
        if owned.users:
            return
        del _open[store.path]
        owned.close(timeout)


def open_or_connect(
    path: Path, settings: StoreSettings, patience: float = OPEN_RETRY_S, *, agree: bool = True
) -> Store | RemoteConnection:
    """Return the store if this process can own it, else a way to the process that does.

    Without *agree* it may be open in this process with other settings.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return open_store(path, settings, agree=agree)
        except AlreadyOpen as taken:
            refused = taken
        try:
            return RemoteConnection(path.resolve(), max(0.1, end - time.monotonic()))
        except (AlreadyOpen, ConnectError) as error:
            # The owner has only begun, or has just gone: look again, not all at once.
            if isinstance(error, ProtocolMismatch | TooManyConnections) or not (
                error.retryable or isinstance(error, AlreadyOpen)
            ):
                raise
            if time.monotonic() >= end:
                raise refused from None
            time.sleep(random.uniform(0.002, 0.02))  # noqa: S311


def _abandon() -> None:
    """In the child of a fork: keep the parent's stores from being used, and its ownership from being inherited."""
    global _lock
    _lock = threading.Lock()
    for owned in _open.values():
        owned.abandon()
        _inherited.append(owned)
    _open.clear()


def _close_forgotten() -> None:
    """At the end of the program: a thread that is inside RocksDB when the interpreter goes would bring it down."""
    for owned in list(_open.values()):
        with suppress(Exception):
            owned.close(EXIT_CLOSE_S)
    _open.clear()


os.register_at_fork(after_in_child=_abandon)
atexit.register(_close_forgotten)
