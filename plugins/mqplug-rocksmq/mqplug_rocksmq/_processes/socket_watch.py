"""Watches sockets whose threads wait for something else, and ends that wait when bytes arrive."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_FLAGS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT


class SocketWatch:
    """A thread that watches sockets for all connections of a server."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._calls: dict[int, Callable[[], None]] = {}
        self._end, self._ending = os.pipe()
        self._epoll.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, connection: int, call: Callable[[], None]) -> Iterator[None]:
        """Within, call *call* when anything arrives on a connection, or it ends."""
        with self._lock:
            self._calls[connection] = call
        self._epoll.register(connection, _FLAGS)
        try:
            yield
        finally:
            with self._lock:
                del self._calls[connection]
            with suppress(OSError):
                self._epoll.unregister(connection)

    def _run(self) -> None:
        while True:
            for connection, _ in self._epoll.poll():
                if connection == self._end:
                    return
                with self._lock:
                    if call := self._calls.get(connection):
                        call()

    def close(self) -> None:
        """End the thread."""
        os.write(self._ending, b"!")
        self._thread.join()
        self.abandon()

    def abandon(self) -> None:
        """Close its descriptors."""
        self._epoll.close()
        os.close(self._end)
        os.close(self._ending)
