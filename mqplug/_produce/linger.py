"""The thread that hands over what was collected and what no sender waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mqplug._base.bell import Bell


class LingerThread:
    """Calls ``tick`` twice in ``linger_s`` from ``start`` on, until it returns False."""

    def __init__(self, tick: Callable[[], bool], linger_s: float, name: str) -> None:
        self._tick = tick
        self._linger_s = linger_s
        self._name = name
        self._due = threading.Event()
        self._closed = False
        self._closing = Bell()  # a wait for an event takes several times as long, and there are many
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to tick, unless it does already. One thread at a time."""
        if self._due.is_set():  # which is cheaper than to set it
            return
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self, timeout: float) -> None:
        """End the thread."""
        self._closed = True
        self._closing.ring()
        self._due.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._tick = _nothing_left  # else a cycle with the queue keeps its driver, and the connection, alive

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._closing.wait(self._linger_s / 2):
                return
            self._due.clear()  # before the tick: what is collected after it needs another
            if self._tick() or self._closed:
                self._due.set()


def _nothing_left() -> bool:
    return False
