"""How much memory the requests and answers of all guests may take together: who comes first is served first."""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import suppress
from threading import Event, Lock
from typing import NamedTuple


def release_free_memory() -> None:
    """Give memory that is free back to the system, where the C library can: it keeps some for each thread otherwise."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _WaitingRequest(NamedTuple):
    """Somebody who waits for this many bytes; the event says that they are taken."""

    size: int
    served: Event


class MemoryAllowance:
    """A number of bytes that is shared out. Any thread.

    Whoever waits is served in the order in which they came, so that a large request is not passed over for ever.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._queue: deque[_WaitingRequest] = deque()
        self._closed = False
        self.used = 0

    def take(self, size: int) -> int:
        """Wait until there is room, and return what has to be given back. What is larger than all of it goes alone."""
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
        """Let others have as many bytes."""
        with self._lock:
            self.used -= size
            self._serve()

    def _serve(self) -> None:
        while self._queue and (self._closed or self.used + self._queue[0].size <= self._most):
            size, served = self._queue.popleft()
            self.used += size
            served.set()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._closed = True
            self._serve()
