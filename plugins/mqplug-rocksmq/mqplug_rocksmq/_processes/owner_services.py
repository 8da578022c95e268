"""What the owner of a store shares among the connections of client processes: its store, their consumers, and memory.

Memory for requests and answers of all client processes together is bounded: first come, first served.
"""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections import deque
from contextlib import suppress
from threading import Event, Lock
from typing import Any, Final, NamedTuple, Protocol

from mqplug import NotAssigned
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.frames import Frame, FrameHeader
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._store.store import Store

UNCOUNTED_BYTES: Final = 1 << 14  # of a request or an answer that need no share of the allowance


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


def release_free_memory() -> None:
    """Give free memory back to the system where the C library can. It keeps some for each thread otherwise."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _WaitingRequest(NamedTuple):
    """A request that waits for this many bytes. The event is set when it gets them."""

    size: int
    served: Event


class MemoryAllowance:
    """A number of bytes to share. Any thread may call.

    Requests that wait get their bytes in the order in which they came, so that no large request waits forever.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._queue: deque[_WaitingRequest] = deque()
        self._closed = False
        self.used = 0

    def take(self, size: int) -> int:
        """Wait for these bytes, and return how many to give back. A request for more than all of them goes alone."""
        size = min(size, self._most)
        with self._lock:
            if self._closed or (not self._queue and self.used + size <= self._most):
                self.used += size
                return size
            waiting = _WaitingRequest(size, Event())
            self._queue.append(waiting)
        waiting.served.wait()
        return size

    def give_back(self, size: int) -> None:
        """Give bytes back to others."""
        with self._lock:
            self.used -= size
            self._serve()

    def _serve(self) -> None:
        while self._queue and (self._closed or self.used + self._queue[0].size <= self._most):
            size, served = self._queue.popleft()
            self.used += size
            served.set()

    def close(self) -> None:
        """Serve all requests at once from now on."""
        with self._lock:
            self._closed = True
            self._serve()
