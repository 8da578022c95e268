"""The owner of a store: this process or another one, and the next one when that ends.

A process owns the stores that it has open. Its clients of one store share it, and the last of them closes it. A client
of a store that another process owns finds each next owner, and may become the owner itself.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from mqplug import AlreadyOpen, ConfigError, ConnectError, Error, ForkedClient, Timeout
from mqplug.spi import Action, Capabilities, ConsumerOptions, Deadline, Listener
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.consumer import JoinContext
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._engine.directory import examine, make_directory
from mqplug_rocksmq._engine.errors import cannot_open
from mqplug_rocksmq._engine.ownership import Ownership, socket_path
from mqplug_rocksmq._engine.rocks import refuse_after_fork
from mqplug_rocksmq._processes.client_connection import OwnerGone, ProtocolMismatch, TooManyConnections
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._processes.requests import ForwardingConnection
from mqplug_rocksmq._processes.server import StoreServer
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.store import Store

_log = logging.getLogger("mqplug.rocksmq")
_lock = threading.Lock()
_open: dict[Path, _OwnedStore] = {}
_inherited: list[_OwnedStore] = []

OPEN_RETRY_S: Final = 5.0
EXIT_CLOSE_S: Final = 3.0  # how long the end of a program waits for a store that is still open
T = TypeVar("T")
FORKED_WAIT_S: Final = 5.0  # for another process to own the store, if this one cannot


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
        """Release the parent's resources in the child of a fork."""
        self.store.abandon()
        self.member_tokens.abandon()
        self.ownership.release()
        if self.server:
            self.server.abandon()


def open_store(path: Path, settings: RocksMQSettings, *, agree: bool = True) -> Store:
    """Return the store at *path*, owned by this process. Release it with ``close_store``.

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
    """Release a store. The last user closes it."""
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

    Without *agree*, this process may have it open with other settings. *patience*: the seconds to wait for another
    process to own it, if this one cannot.
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
    """Return the error for a store whose owner does not serve this process. Raise *refused* if there is no owner."""
    try:
        if path.exists():
            Ownership(path).release()
    except AlreadyOpen as taken:
        return taken
    raise refused


def _abandon() -> None:
    """Make the parent's stores unusable in the child of a fork, without inheriting their ownership."""
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


class StoreAccess(Protocol):
    """A connection to this process's store or to the owner process, besides the table of operations."""

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, context: JoinContext
    ) -> Any: ...
    def administer(self, action: Action, timeout: float, request: OnceRequest) -> Any: ...
    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error: ...
    def unwrap(self, kind: type[Any]) -> Any | None: ...
    def close(self, timeout: float) -> None: ...


class StoreLocator(ForwardingConnection):
    """Uses the store through its owner process. When that ends, finds the next owner, or becomes the owner."""

    def __init__(self, remote: RemoteConnection, settings: RocksMQSettings, capabilities: Capabilities) -> None:
        self.settings = settings
        self.capabilities = capabilities
        self._path = remote.path
        self._id = remote.id
        self._access: StoreAccess = remote
        self._following = threading.Lock()
        self._process = os.getpid()
        self._unowned_since: float | None = None  # as observed by a process that cannot own the store

    @property
    def access(self) -> StoreAccess:
        """The latest known connection to the store."""
        return self._access

    def follow(self, gone: StoreAccess, timeout: float) -> StoreAccess:
        """Return the connection after this one: own the store, or find its owner."""
        if os.getpid() != self._process:
            raise ForkedClient("this client was opened before the process forked", fix="Connect in the child")
        if not self._following.acquire(timeout=timeout):
            raise Timeout(f"no new owner of the store was found within {timeout:g} s", backend="rocksmq")
        try:
            if self._access is gone:
                self._access = self._find(timeout)
                gone.close(0)
            return self._access
        finally:
            self._following.release()

    def _find(self, timeout: float) -> StoreAccess:
        try:
            found = self._open_or_connect(timeout)
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise cannot_open(self._path, error) from error
        if found.id != self._id:
            _close_found(found, timeout)
            raise ConnectError(
                f"another store is now at {self._path}", fix="Connect again", backend="rocksmq", retryable=False
            )
        if isinstance(found, Store):
            return StoreConnection(found, self.settings, self.capabilities, close_store)
        return found

    def _open_or_connect(self, timeout: float) -> Store | RemoteConnection:
        """Own the store, or connect to its owner. A process that cannot own it waits a while for the next owner."""
        since = self._unowned_since or time.monotonic()
        patience = max(0.0, since + FORKED_WAIT_S - time.monotonic())
        try:
            found = open_or_connect(self._path, self.settings, timeout, agree=False, patience=patience)
        except ForkedClient as error:
            self._unowned_since = since
            if time.monotonic() < since + FORKED_WAIT_S:
                raise Timeout(f"no process owned the store within {timeout:g} s", backend="rocksmq") from error
            raise
        self._unowned_since = None
        return found

    def at_store(self, act: Callable[[StoreAccess, float], T], timeout: float) -> T:
        """Call *act* where the store is open. If the owner ends during the call, call it again at the next owner."""
        deadline = Deadline(timeout)
        access = self._access
        while True:
            try:
                return act(access, deadline.remaining())
            except OwnerGone as gone:
                if deadline.expired:
                    raise Timeout(
                        f"the store's owner changed, and {timeout:g} s had passed", backend="rocksmq"
                    ) from gone
                access = self.follow(access, deadline.remaining())

    def _forward(self, operation: str, arguments: Sequence[Any], timeout: float) -> Any:
        return self.at_store(lambda access, left: getattr(access, operation)(*arguments, left), timeout)

    def open_consumer_there(
        self, options: ConsumerOptions, listener: Listener, timeout: float, context: JoinContext
    ) -> tuple[StoreAccess, Any]:
        """Open a consumer where the store is open. Return it with the connection that it belongs to."""
        return self.at_store(
            lambda access, left: (access, access.open_consumer(options, listener, left, context)), timeout
        )

    def close(self, timeout: float) -> None:
        self._access.close(timeout)


def _close_found(found: Store | RemoteConnection, timeout: float) -> None:
    if isinstance(found, Store):
        close_store(found, timeout)
    else:
        found.close(timeout)
