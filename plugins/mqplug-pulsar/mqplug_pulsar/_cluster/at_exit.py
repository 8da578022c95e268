"""When the process ends, native clients that nobody closed are closed.

Their threads would else go on to report what was sent. A Python that has ended kills each thread that comes back to it,
which the C++ runtime takes for a fault: it aborts the process, which was seen one time in five.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from threading import Event, Lock, Thread
from weakref import WeakSet

import _pulsar
import pulsar

EXIT_TIMEOUT_S = 2.0  # seconds: when no broker answers, the process ends all the same


class ExitCloser:
    """Closes what is open when the process ends.

    The native close cannot be bounded but by a thread that nobody waits for; and when the process ends, it is too late
    to begin one. So one waits from the first client on.
    """

    def __init__(self) -> None:
        self._clients: WeakSet[pulsar.Client] = WeakSet()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._now = Event()
        self._done = Event()

    def add(self, client: pulsar.Client) -> None:
        """Remember a client."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None:
                self._thread = Thread(target=self._close, name="mqplug-pulsar-leaving", daemon=True)
                self._thread.start()

    def close_all(self) -> bool:
        """The process ends: whether all could be closed in time."""
        if self._thread is None:
            return True
        self._now.set()
        return self._done.wait(EXIT_TIMEOUT_S)

    def _close(self) -> None:
        self._now.wait()
        for client in tuple(self._clients):
            with suppress(_pulsar.PulsarException):  # it was closed already, or cannot be
                client.close()
        self._done.set()


_exit_closer = ExitCloser()


def close_at_exit(client: pulsar.Client) -> None:
    """Close this client when the process ends, if it is still there."""
    _exit_closer.add(client)


def _close_all_clients() -> None:
    _exit_closer.close_all()


def _forget_clients() -> None:
    global _exit_closer  # the clients of before are the parent's
    _exit_closer = ExitCloser()


atexit.register(_close_all_clients)
os.register_at_fork(after_in_child=_forget_clients)
