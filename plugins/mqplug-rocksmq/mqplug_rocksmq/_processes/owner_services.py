"""Parts of a store's owner that the connections of client processes share: its store, their consumers, and memory.

The memory for requests and answers of all client processes together is bounded: first come, first served.
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

UNCOUNTED_BYTES: Final = 1 << 14  # requests and answers up to this size need no share of the allowance


class ServedObject(Protocol):
    """The producer or consumer that a connection serves, once its client has opened one.

    A connection that is silent for longer than ``silence`` seconds is closed.
    """

    silence: float | None

    def serve(self, header: FrameHeader, body: bytes) -> None:
        """Carry out one request."""

    def leave(self, *, for_good: bool) -> None:
        """End the session, because the connection is closed. *for_good*: the client closed it."""


class ConsumerRegistry:
    """The consumers of client processes, by the tokens under which those processes know them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drivers: dict[str, Any] = {}

    def add(self, driver: Any) -> str:
        """Add a consumer and return its token, which only its process knows."""
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
            fix="Receive again: the member rejoins, and messages whose acks were not stored are delivered again",
        )  # fmt: skip

    def find(self, token: str) -> Any | None:
        """Return a consumer, or None if it has ended."""
        return self._drivers.get(token)

    def remove(self, token: str) -> None:
        """Remove a consumer."""
        with self._lock:
            self._drivers.pop(token, None)


class OwnerServices(Protocol):
    """The part of a store's owner that sessions use."""

    store: Store
    store_connection: StoreConnection
    consumers: ConsumerRegistry
    member_tokens: MemberTokens


class SessionConnection(Protocol):
    """The connection to the process that a session serves."""

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
    """Return free memory to the system where the C library can. Otherwise it keeps some for each thread."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _WaitingRequest(NamedTuple):
    """A request that waits for *size* bytes. The event is set when it gets them."""

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
        """Wait for these bytes, and return how many to give back. An oversized request waits for all of them."""
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
        """Serve all waiting and later requests at once."""
        with self._lock:
            self._closed = True
            self._serve()
