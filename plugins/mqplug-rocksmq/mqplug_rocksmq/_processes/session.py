"""Sessions: what a connection of another process is for, and what it may use of the owner of the store."""

from __future__ import annotations

import secrets
import threading
from typing import Any, Protocol

from mqplug import NotAssigned
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.frames import Frame, FrameHeader
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.socket_watch import SocketWatch
from mqplug_rocksmq._store.store import Store


class Session(Protocol):
    """What a connection is for, once it has said so. Who says nothing for longer than ``silence`` is hung up on."""

    silence: float | None

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Do what was asked."""

    def leave(self, *, for_good: bool) -> None:
        """The connection has ended; *for_good*: by the guest."""


class ConsumerRegistry:
    """The consumers of other processes, by the names that those know them by."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drivers: dict[str, Any] = {}

    def add(self, driver: Any) -> str:
        """Return the name of a consumer; only its process knows it."""
        token = secrets.token_hex(8)
        with self._lock:
            self._drivers[token] = driver
        return token

    def get(self, token: str) -> Any:
        """Return a consumer; ``NotAssigned`` when it is not any more."""
        if driver := self._drivers.get(token):
            return driver
        raise NotAssigned(
            "this member of the group lost its partitions: it did not answer in time", backend="rocksmq",
            fix="Receive again: it joins anew, and what was not stored comes again",
        )  # fmt: skip

    def remove(self, token: str) -> None:
        """Forget one."""
        with self._lock:
            self._drivers.pop(token, None)


class OwnerServices(Protocol):
    """The owner of a store, as far as sessions use it."""

    store: Store
    home: StoreConnection
    consumers: ConsumerRegistry
    memberships: MemberTokens
    watch: SocketWatch


class SessionConnection(Protocol):
    """The connection of the process that a session works for."""

    @property
    def server(self) -> OwnerServices: ...
    @property
    def more_came(self) -> bool: ...
    def fileno(self) -> int: ...
    def hear(self, timeout: float | None) -> Frame | None: ...
    def say(self, header: FrameHeader, *body: bytes) -> None: ...
    def remark(self, header: FrameHeader) -> None: ...
    def hang_up(self) -> None: ...
