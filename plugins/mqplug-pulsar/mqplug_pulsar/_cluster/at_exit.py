"""Closes the native clients that are still open when the process ends.

Otherwise their threads go on reporting sends, and calls return to threads of Python. An interpreter that has ended
kills each thread that returns to it, which the C++ runtime takes for a fault: it aborted the process one time in five.
A client that the broker does not let close in time is shut down, so that its calls return before.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from threading import Event, Lock, Thread
from weakref import WeakSet

import _pulsar
import pulsar

from mqplug_pulsar._cluster.daemon_threads import wait_for_calls

EXIT_TIMEOUT_S = 2.0  # for calls under way, and again for the close: then the process ends even if no broker answers
RETURN_TIMEOUT_S = 1.0  # for calls of clients that are closed


class ExitCloser:
    """Open native clients, and a thread that closes them when the process ends.

    Only a thread that is not joined can bound the native close, and no thread can be started when the process ends. So
    one waits from the first client on.
    """

    def __init__(self) -> None:
        self._clients: WeakSet[pulsar.Client] = WeakSet()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._now = Event()
        self._done = Event()

    def add(self, client: pulsar.Client) -> None:
        """Add a client."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None:
                self._thread = Thread(target=self._close, name="mqplug-pulsar-leaving", daemon=True)
                self._thread.start()

    def close_all(self) -> bool:
        """Close all clients. Return whether that ended in time."""
        if self._thread is None:
            return True
        wait_for_calls(EXIT_TIMEOUT_S)  # the native client forgets to open a producer while it is closed
        self._now.set()
        if self._done.wait(EXIT_TIMEOUT_S) and wait_for_calls(RETURN_TIMEOUT_S):
            return True
        for client in tuple(self._clients):
            client.shutdown()
        self._done.wait(RETURN_TIMEOUT_S)
        wait_for_calls(RETURN_TIMEOUT_S)
        return False

    def _close(self) -> None:
        self._now.wait()
        for client in tuple(self._clients):
            with suppress(_pulsar.PulsarException):  # closed before, or not closable
                client.close()
        self._done.set()


_exit_closer = ExitCloser()


def close_at_exit(client: pulsar.Client) -> None:
    """Close this client when the process ends, if it still exists."""
    _exit_closer.add(client)


def _close_all_clients() -> None:
    _exit_closer.close_all()


def _forget_clients() -> None:
    global _exit_closer  # earlier clients are the parent's
    _exit_closer = ExitCloser()


atexit.register(_close_all_clients)
os.register_at_fork(after_in_child=_forget_clients)
