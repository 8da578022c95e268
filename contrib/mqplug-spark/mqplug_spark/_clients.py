"""The clients of this process: one for each complete set of connection settings, shared by all that runs in it.

Spark reuses its Python workers, and forks them from a daemon, so a child begins with none of its parent's clients.
``ask`` asks the backend by them, and connects anew after a lost connection.
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

MAX_CLIENTS: Final = 16  # of different settings; beyond them, the one that was not asked for longest is closed
CLOSE_S: Final = 1.0  # what a close may take: nothing is on its way in a client that only reads
PAUSE_S: Final = 0.2  # between two attempts
LOST: Final = (ConnectError, Closed)  # what a lost connection raises
AWAY: Final = (*LOST, Timeout)  # what is raised while a backend is away


def connect(settings: BackendSettings) -> Client:
    """Return a client of a backend that other processes can reach. Raise ``Unsupported`` for any other."""
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
    """Clients by their settings. Any thread may use it."""

    def __init__(self, most: int = MAX_CLIENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._clients: OrderedDict[BackendSettings, Client] = OrderedDict()

    def get(self, settings: BackendSettings) -> Client:
        """Return the client of these settings. Connect if there is none."""
        with self._lock:
            known = self._clients.get(settings)
            if known is not None:
                self._clients.move_to_end(settings)
                return known
        return self._add(settings, connect(settings))

    def drop(self, settings: BackendSettings, client: Client | None = None) -> None:
        """Close the client of these settings; if ``client`` is given, only if it is that one."""
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
        """Keep a new client. If another thread was first, close it and return the other's."""
        with self._lock:
            kept = self._clients.setdefault(settings, made)
            surplus = [made] if kept is not made else []
            if len(self._clients) > self._most:
                surplus.append(self._clients.popitem(last=False)[1])
        for client in surplus:
            _close(client)
        return kept


def _close(client: Client) -> None:
    with suppress(Error):  # it was lost, or its process ends
        client.close(CLOSE_S)


_clients = ProcessClients()
_inherited: list[ProcessClients] = []  # those of parents: kept, since forgetting a client is not the child's business


def process_client(settings: BackendSettings) -> Client:
    """Return the client of this process for these settings. Only ``drop_client`` and the process's end close it.

    Raise ``Unsupported`` for a backend that other processes cannot reach.
    """
    return _clients.get(settings)


def drop_client(settings: BackendSettings, client: Client | None = None) -> None:
    """Close the client of these settings after a lost connection, so that the next call connects anew.

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
    """Return what the client of these settings answers. If its connection was lost, ask a new client once.

    With ``patience``, ask again and again for so many seconds, after any of the ``repeatable`` errors, where the first
    would end a query or a write; raise the last one at the end.
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
