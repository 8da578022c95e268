"""The stores that this process has open. Clients of one store share it, and the last of them closes it."""

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

from mqplug import AlreadyOpen, ConfigError, ConnectError, ForkedClient
from mqplug.spi import Deadline
from mqplug_rocksmq._engine.directory import examine, make_directory
from mqplug_rocksmq._engine.ownership import Ownership, socket_path
from mqplug_rocksmq._engine.rocks import refuse_after_fork
from mqplug_rocksmq._processes.client_connection import ProtocolMismatch, TooManyConnections
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.server import StoreServer
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.store import Store

_log = logging.getLogger("mqplug.rocksmq")
_lock = threading.Lock()
_open: dict[Path, _OwnedStore] = {}
_inherited: list[_OwnedStore] = []

OPEN_RETRY_S: Final = 5.0
EXIT_CLOSE_S: Final = 3.0  # how long the end of a program waits for a store that is still open


class _OwnedStore:
    """A store that this process owns, with everything that belongs to it."""

    def __init__(self, path: Path, settings: RocksMQSettings) -> None:
        self.users = 0
        self.ownership = Ownership(path)
        try:
            self.member_tokens = MemberTokens(path)
        except BaseException:
            self.ownership.release()
            raise
        try:
            self.store = Store(path, settings)
        except BaseException:
            self.member_tokens.close()
            self.ownership.release()
            raise
        self.server = self._serve(path)

    def _serve(self, path: Path) -> StoreServer | None:
        try:
            address = socket_path(path)
            server = StoreServer(self.store, address, self.member_tokens)
        except OSError as error:
            _log.warning("store %s: other processes cannot use it, serving failed: %s", path, error)
            return None
        self.ownership.announce(address)
        return server

    def close(self, timeout: float | None) -> None:
        """Close everything. Client processes notice the end only when another process can own the store."""
        if self.server:
            self.server.stop_serving(timeout)
        try:
            self.store.close(timeout)
        finally:
            self.member_tokens.close()
            self.ownership.release()
            if self.server:
                self.server.close()

    def abandon(self) -> None:
        """Release what belongs to the parent, in the child of a fork."""
        self.store.abandon()
        self.member_tokens.abandon()
        self.ownership.release()
        if self.server:
            self.server.abandon()


def open_store(path: Path, settings: RocksMQSettings, *, agree: bool = True) -> Store:
    """Return the store at *path*, owned by this process. Give it back with ``close_store``.

    Raise ``AlreadyOpen`` if another process owns it, and ``ForkedClient`` if this one cannot.
    """
    path = path.absolute()
    examine(path)
    refuse_after_fork(path)
    make_directory(path)
    path = path.resolve()
    with _lock:
        owned = _open.get(path)
        if owned is None:
            owned = _open[path] = _OwnedStore(path, settings)
        elif agree:
            _check_agreement(owned.store, settings)
        owned.users += 1
        return owned.store


def _check_agreement(store: Store, settings: RocksMQSettings) -> None:
    if different := store.settings.differences(settings):
        here, wanted = (
            ", ".join(f"{name}={getattr(each, name)!r}" for name in different) for each in (store.settings, settings)
        )
        raise ConfigError(
            f"this process has the store {store.path} open with {here}, which differs from {wanted}",
            fix="Use the same settings for all clients of one store",
        )


def close_store(store: Store, timeout: float | None = None) -> None:
    """Give a store back. The last user closes it."""
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
    path: Path, settings: RocksMQSettings, timeout: float = OPEN_RETRY_S, *, agree: bool = True, patience: float = 0.0
) -> Store | RemoteConnection:
    """Return the store if this process can own it, else a connection to the process that owns it.

    Without *agree* this process may have it open with other settings. *patience*: the seconds until another process
    owns it, if this one cannot.
    """
    deadline, patient = Deadline(timeout), Deadline(min(patience, timeout))
    while True:
        refused: AlreadyOpen | ForkedClient
        try:
            return open_store(path, settings, agree=agree)
        except (AlreadyOpen, ForkedClient) as error:
            refused = error
        try:
            return RemoteConnection(path.resolve(), max(0.1, deadline.remaining()))
        except (AlreadyOpen, ConnectError) as error:
            # The owner is just opening the store, or has just ended: try again, but not all clients at once.
            if isinstance(error, ProtocolMismatch | TooManyConnections):
                raise
            if not (error.retryable or isinstance(error, AlreadyOpen)):
                raise
            if isinstance(refused, ForkedClient) and patient.expired:
                refused = _taken(path, refused)
            if deadline.expired:
                raise refused from None
            time.sleep(random.uniform(0.002, 0.02))  # noqa: S311


def _taken(path: Path, refused: ForkedClient) -> AlreadyOpen:
    """Return the error of a store whose owner does not serve this process, yet or at all. Without an owner, raise."""
    try:
        if path.exists():
            Ownership(path).release()
    except AlreadyOpen as taken:
        return taken
    raise refused


def _abandon() -> None:
    """Make the parent's stores unusable in the child of a fork, and do not inherit their ownership."""
    global _lock
    _lock = threading.Lock()
    for owned in _open.values():
        owned.abandon()
        _inherited.append(owned)
    _open.clear()


def _close_forgotten() -> None:
    """Close open stores at the end of the program: a thread inside RocksDB would crash the ending interpreter."""
    for owned in list(_open.values()):
        with suppress(Exception):
            owned.close(EXIT_CLOSE_S)
    _open.clear()


os.register_at_fork(after_in_child=_abandon)
atexit.register(_close_forgotten)
