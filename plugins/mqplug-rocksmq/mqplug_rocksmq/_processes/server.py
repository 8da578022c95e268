"""The server of a store: its owner process serves client processes on this host over a Unix socket."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqplug import Error
from mqplug.spi import Capabilities, Deadline
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.frames import PROTOCOL, FrameHeader, pack_frame, user_of
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.owner_services import ConsumerRegistry, MemoryAllowance, release_free_memory
from mqplug_rocksmq._processes.server_connection import ServerConnection
from mqplug_rocksmq._settings import PLUGIN_VERSION
from mqplug_rocksmq._store.store import Store

FORGET_PRODUCERS_S: Final = 600.0  # after which producers that did not come back are forgotten
CLOSE_ANSWERS_S: Final = 3.0  # in which pending requests are answered when the store is closed
_ACCEPT_ROUND_S: Final = 60.0
_log = logging.getLogger("mqplug.rocksmq")


class StoreServer:
    """Serves client processes until ``stop_serving``. ``close`` hangs up: the clients look for the next owner."""

    def __init__(self, store: Store, path: Path, member_tokens: MemberTokens) -> None:
        self.store = store
        self.member_tokens = member_tokens
        self.store_connection = StoreConnection(store, store.settings, Capabilities(), lambda *_: None)
        self.consumers = ConsumerRegistry()
        self.allowance = MemoryAllowance(store.settings.clients_max_bytes)
        self._freed, self._release_at = 0, store.settings.clients_max_bytes // 2
        self.closing = False
        self.hello: FrameHeader = {
            "protocol": PROTOCOL,
            "store": store.id,
            "pid": os.getpid(),
            "owner": secrets.token_hex(8),
            "version": PLUGIN_VERSION,
        }
        self._path = path
        self._connections: set[ServerConnection] = set()
        self._lock = threading.Lock()
        self._forget_at = time.monotonic() + FORGET_PRODUCERS_S
        self._listener = _listen(path)
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-serve", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.closing:
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError:
                self._forget_producers()
            except OSError as error:
                if not self.closing:
                    _log.warning("store %s: accepting a client process failed: %s", self.store.path, error)
                    time.sleep(0.1)  # too many open files: some may be closed soon
            else:
                self._welcome(accepted)

    def _welcome(self, accepted: socket.socket) -> None:
        user = user_of(accepted)
        if user not in {None, os.getuid()}:
            _log.warning("store %s: refused a process of user %s", self.store.path, user)
            accepted.close()
            return
        if len(self._connections) >= self.store.settings.client_connections_max:
            self._refuse(accepted)
            return
        connection = ServerConnection(accepted, self)
        with self._lock:
            if self.closing:
                accepted.close()
                return
            self._connections.add(connection)
            connection.start()

    def _refuse(self, accepted: socket.socket) -> None:
        """Refuse one connection too many with a reason, without waiting for the client."""
        most = self.store.settings.client_connections_max
        _log.warning(
            "store %s: refused a connection: %d are open already (client_connections_max)", self.store.path, most
        )
        with accepted, suppress(OSError):
            accepted.send(pack_frame({**self.hello, "full": most}), socket.MSG_DONTWAIT)

    def give_back(self, size: int) -> None:
        """Give back the memory of a large request or answer that is done."""
        self.allowance.give_back(size)
        self._freed += size
        if self._freed >= self._release_at:  # no lock: now and then is enough
            self._freed = 0
            release_free_memory()

    def ended(self, connection: ServerConnection) -> None:
        """Close an ended connection. While the server closes, it stays open until the store is closed."""
        with self._lock:
            if self.closing:
                return
            self._connections.discard(connection)
        connection.socket.close()

    def _forget_producers(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_PRODUCERS_S
            with suppress(Error):
                self.store.deduplication.forget_absent()

    def stop_serving(self, timeout: float | None) -> None:
        """Accept nothing more, and finish pending requests."""
        self._path.unlink(missing_ok=True)
        with self._lock:
            self.closing = True
            connections = list(self._connections)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        deadline = Deadline(CLOSE_ANSWERS_S if timeout is None else min(timeout, CLOSE_ANSWERS_S))
        for connection in connections:
            connection.hang_up()
        self.allowance.close()
        for connection in connections:
            connection.join(deadline.remaining())

    def close(self) -> None:
        """Hang up: any process that is still connected may own the store now."""
        self._listener.close()
        self._thread.join(1.0)
        for connection in self._connections:
            connection.socket.close()

    def abandon(self) -> None:
        """Close the parent's sockets in the child of a fork. Clients would not notice the parent's death otherwise."""
        self._listener.close()
        for connection in self._connections:
            connection.socket.close()


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(128)
        listener.settimeout(_ACCEPT_ROUND_S)
    except BaseException:
        listener.close()
        raise
    return listener
