"""Bounds the memory for requests and answers of all client processes together: first come, first served."""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import suppress
from threading import Event, Lock
from typing import Final, NamedTuple

UNCOUNTED_BYTES: Final = 1 << 14  # of a request or an answer that need no share of the allowance


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
