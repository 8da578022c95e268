"""Sessions of client processes in the owner: their protocols, and the consumers that are open for them."""

from __future__ import annotations

import secrets
import threading
from typing import Any, Protocol

from mqplug import NotAssigned
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.frames import Frame, FrameHeader
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._store.store import Store


class ServedObject(Protocol):
    """A connection's purpose, once it has announced one: a producer's or a consumer's.

    A connection that is silent for longer than ``silence`` seconds is closed.
    """

    silence: float | None

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Carry out one request."""

    def leave(self, *, for_good: bool) -> None:
        """End: the connection is closed. *for_good*: by the client."""


class ConsumerRegistry:
    """The consumers of client processes, by the tokens that those know them by."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drivers: dict[str, Any] = {}

    def add(self, driver: Any) -> str:
        """Return a token for a consumer. Only its process knows it."""
        token = secrets.token_hex(8)
        with self._lock:
            self._drivers[token] = driver
        return token

    def get(self, token: str) -> Any:
        """Return a consumer. Raise ``NotAssigned`` if it has ended."""
        if driver := self._drivers.get(token):
            return driver
        raise NotAssigned(
            "this member of the group lost its partitions: it did not answer in time", backend="rocksmq",
            fix="Receive again: the member rejoins, and messages whose acks were not stored come again",
        )  # fmt: skip

    def find(self, token: str) -> Any | None:
        """Return a consumer, or None if it has ended."""
        return self._drivers.get(token)

    def remove(self, token: str) -> None:
        """Remove a consumer."""
        with self._lock:
            self._drivers.pop(token, None)


class OwnerServices(Protocol):
    """The owner of a store, as far as sessions use it."""

    store: Store
    store_connection: StoreConnection
    consumers: ConsumerRegistry
    member_tokens: MemberTokens


class SessionConnection(Protocol):
    """The connection to the process that a session works for."""

    @property
    def server(self) -> OwnerServices: ...
    @property
    def process(self) -> int | None: ...
    @property
    def more_came(self) -> bool: ...
    def fileno(self) -> int: ...
    def receive_frame(self, timeout: float | None) -> Frame | None: ...
    def send_frame(self, header: FrameHeader, *body: bytes) -> None: ...
    def send_frame_nowait(self, header: FrameHeader, *body: bytes) -> None: ...
    def hang_up(self) -> None: ...
