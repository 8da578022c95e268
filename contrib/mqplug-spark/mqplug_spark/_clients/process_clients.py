"""The clients of this process: one for each complete set of connection settings, shared by all that runs in it.

Spark reuses its Python workers, and forks them from a daemon, so a child begins with none of its parent's clients.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from mqplug import Client, Closed, ConnectError, Error
from mqplug_spark._clients.connecting import connect
from mqplug_spark._options.backend_settings import BackendSettings

T = TypeVar("T")

MAX_CLIENTS: Final = 16  # of different settings; beyond them, the one that was not asked for longest is closed
CLOSE_S: Final = 1.0  # what a close may take: nothing is on its way in a client that only reads


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


def ask(settings: BackendSettings, question: Callable[[Client], T]) -> T:
    """Return what the client of these settings answers. If its connection was lost, ask a new client once."""
    client = process_client(settings)
    try:
        return question(client)
    except (Closed, ConnectError):
        drop_client(settings, client)
    return question(process_client(settings))


def _begin_anew() -> None:
    global _clients
    _inherited.append(_clients)
    _clients = ProcessClients()


def _close_all() -> None:
    _clients.close()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(_close_all)
