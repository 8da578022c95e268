"""The clients of this process: one for each complete set of connection settings, shared by all code that runs in it.

Spark reuses its Python workers and forks them from a daemon, so a child starts without its parent's clients. ``ask``
sends a request and reconnects after a lost connection.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from mqplug import Client, Closed, ConnectError, Error, Timeout, Unsupported
from mqplug_spark._options.backend_settings import BackendSettings

T = TypeVar("T")

MAX_CLIENTS: Final = 16  # with different settings; above this, the least recently used one is closed
CLOSE_S: Final = 1.0  # for a close: no message is in flight by then
PAUSE_S: Final = 0.2  # between two attempts
LOST: Final = (ConnectError, Closed)  # the errors of a lost connection
AWAY: Final = (*LOST, Timeout)  # the errors of a backend that does not answer


def connect(settings: BackendSettings) -> Client:
    """Return a client of a backend that other processes can reach. Raise ``Unsupported`` for any other backend."""
    client = settings.connect()
    able = client.capabilities
    if able.persistent or able.multi_node:
        return client
    client.close()
    raise Unsupported(
        "persistent", f"{client.backend} keeps its messages in one process; Spark's tasks run in others",
        backend=client.backend, operation="connect for Spark", fix="Use a backend such as rocksmq, kafka or pulsar",
    )  # fmt: skip


class ProcessClients:
    """Clients by their settings. Thread-safe."""

    def __init__(self, most: int = MAX_CLIENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._clients: OrderedDict[BackendSettings, Client] = OrderedDict()

    def get(self, settings: BackendSettings) -> Client:
        """Return the client for these settings. Connect if there is none."""
        with self._lock:
            known = self._clients.get(settings)
            if known is not None:
                self._clients.move_to_end(settings)
                return known
        return self._add(settings, connect(settings))

    def drop(self, settings: BackendSettings, client: Client | None = None) -> None:
        """Close the client for these settings; if ``client`` is given, only if it is that one."""
        with self._lock:
            known = self._clients.get(settings)
            if known is None or client not in {None, known}:
                return
            del self._clients[settings]
        _close(known)

    def close(self) -> None:
        """Close all clients."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), OrderedDict()
        for client in clients:
            _close(client)

    def _add(self, settings: BackendSettings, made: Client) -> Client:
        """Keep a new client. If another thread was faster, close the new one and return the other thread's."""
        with self._lock:
            kept = self._clients.setdefault(settings, made)
            surplus = [made] if kept is not made else []
            if len(self._clients) > self._most:
                surplus.append(self._clients.popitem(last=False)[1])
        for client in surplus:
            _close(client)
        return kept


def _close(client: Client) -> None:
    with suppress(Error):  # the connection is lost, or the process is ending
        client.close(CLOSE_S)


_clients = ProcessClients()
_inherited: list[ProcessClients] = []  # clients of parents, kept so that the child does not destroy them


def process_client(settings: BackendSettings) -> Client:
    """Return the client of this process for these settings. Callers do not close it.

    Raise ``Unsupported`` for a backend that other processes cannot reach.
    """
    return _clients.get(settings)


def drop_client(settings: BackendSettings, client: Client | None = None) -> None:
    """Close the client for these settings after a lost connection, so that the next call reconnects.

    If ``client`` is given, only that one is closed: another thread may have replaced it already.
    """
    _clients.drop(settings, client)


def ask(
    settings: BackendSettings,
    question: Callable[[Client], T],
    *,
    patience: float | None = None,
    repeatable: tuple[type[Error], ...] = AWAY,
) -> T:
    """Return the answer of the client for these settings. If its connection was lost, ask a new client once.

    With ``patience``, retry any of the ``repeatable`` errors for this many seconds, then raise the last one. Use it
    where the first error would end a query or a write.
    """
    again = LOST if patience is None else repeatable
    deadline = time.monotonic() + (patience or 0)
    attempts = 0
    while True:
        attempts += 1
        client = None
        try:
            client = process_client(settings)
            return question(client)
        except again as error:
            if client is not None and isinstance(error, LOST):
                drop_client(settings, client)
            if patience is None:
                if client is None or attempts > 1:
                    raise
            elif time.monotonic() + PAUSE_S > deadline:
                raise
            else:
                time.sleep(PAUSE_S)


def _begin_anew() -> None:
    global _clients
    _inherited.append(_clients)
    _clients = ProcessClients()


def _close_all() -> None:
    _clients.close()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(_close_all)
