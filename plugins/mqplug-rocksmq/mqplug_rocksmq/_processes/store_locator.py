"""Finds where a store is open, again each time its owner process ends, and forwards operations there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from mqplug import ConnectError, Error, ForkedClient, Timeout
from mqplug.spi import Action, Capabilities, ConsumerOptions, Deadline, Listener
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._driver.consumer import JoinContext
from mqplug_rocksmq._driver.transactional_producer import PlacedParts, StepCommit
from mqplug_rocksmq._engine.errors import cannot_open
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.forwarding import ForwardingConnection
from mqplug_rocksmq._processes.open_stores import close_store, open_or_connect
from mqplug_rocksmq._processes.remote_store import RemoteConnection
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.deduplication import OnceRequest
from mqplug_rocksmq._store.store import Store

T = TypeVar("T")

FORKED_WAIT_S: Final = 5.0  # for another process to own the store, if this one cannot


class StoreAccess(Protocol):
    """A connection to the store: to that of this process, or to the owner process. Beside the table of operations."""

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, context: JoinContext
    ) -> Any: ...
    def administer(self, action: Action, timeout: float, request: OnceRequest) -> Any: ...
    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error: ...
    def unwrap(self, kind: type[Any]) -> Any | None: ...
    def close(self, timeout: float) -> None: ...


class StoreLocator(ForwardingConnection):
    """Uses the store of another process. When that process ends, uses the next owner's, or becomes the owner."""

    def __init__(self, remote: RemoteConnection, settings: RocksMQSettings, capabilities: Capabilities) -> None:
        self.settings = settings
        self.capabilities = capabilities
        self._path = remote.path
        self._id = remote.id
        self._access: StoreAccess = remote
        self._following = threading.Lock()
        self._process = os.getpid()
        self._unowned_since: float | None = None  # as far as a process knows that cannot own the store

    @property
    def access(self) -> StoreAccess:
        """The connection to the store, as far as this process knows."""
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
        """Own the store, or connect to its owner. A process that cannot own it waits some time for the next owner."""
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
        """Do something where the store is open. If the owner ends meanwhile, do it again at the next one."""
        deadline = Deadline(timeout)
        access = self._access
        while True:
            try:
                return act(access, deadline.remaining())
            except OwnerGone as gone:
                if deadline.expired:
                    raise Timeout(
                        f"the store's owner changed, and {timeout:g} s were over", backend="rocksmq"
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
