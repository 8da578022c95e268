"""The owner of a store serves other processes on this host, over a Unix socket."""

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
from mqplug.spi import Capabilities
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.frames import PROTOCOL, FrameHeader, pack_frame
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.memory_allowance import MemoryAllowance, release_free_memory
from mqplug_rocksmq._processes.peer import user_of
from mqplug_rocksmq._processes.server_connection import ServerConnection
from mqplug_rocksmq._processes.session import ConsumerRegistry
from mqplug_rocksmq._processes.socket_watch import SocketWatch
from mqplug_rocksmq._settings import PLUGIN_VERSION
from mqplug_rocksmq._store.store import Store

FORGET_PRODUCERS_S: Final = 600.0  # seconds after which producers that did not come back are forgotten
CLOSE_ANSWERS_S: Final = 3.0  # seconds in which guests get the answers that they wait for when the store is closed
_ACCEPT_ROUND_S: Final = 60.0
_log = logging.getLogger("mqplug.rocksmq")


class StoreServer:
    """Welcomes guests until ``hush``, which ends what they say; ``close`` hangs up, and they see that it is over."""

    def __init__(self, store: Store, path: Path, memberships: MemberTokens) -> None:
        self.store = store
        self.memberships = memberships
        self.home = StoreConnection(store, Capabilities(), lambda *_: None)
        self.consumers = ConsumerRegistry()
        self.allowance = MemoryAllowance(store.settings.guests_max_bytes)
        self._freed, self._trim_at = 0, store.settings.guests_max_bytes // 2
        self.closing = False
        self.hello: FrameHeader = {
            "protocol": PROTOCOL,
            "store": store.id,
            "pid": os.getpid(),
            "owner": secrets.token_hex(8),
            "version": PLUGIN_VERSION,
        }
        self._path = path
        self._guests: set[ServerConnection] = set()
        self._lock = threading.Lock()
        self._forget_at = time.monotonic() + FORGET_PRODUCERS_S
        self._listener = _listen(path)
        self.watch = SocketWatch()
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-serve", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.closing:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                self._forget()
            except OSError as error:
                if not self.closing:
                    _log.warning("another process could not be welcomed: %s", error)
                    time.sleep(0.1)  # too many open files: some may be closed soon
            else:
                self._welcome(connection)

    def _welcome(self, connection: socket.socket) -> None:
        if user_of(connection) not in {None, os.getuid()}:
            _log.warning("a process of another user was turned away")
            connection.close()
            return
        if len(self._guests) >= self.store.settings.guest_connections_max:
            self._turn_away(connection)
            return
        guest = ServerConnection(connection, self)
        with self._lock:
            if self.closing:
                connection.close()
                return
            self._guests.add(guest)
            guest.start()

    def _turn_away(self, connection: socket.socket) -> None:
        """Tell a guest too many why it is not served, without waiting for it."""
        most = self.store.settings.guest_connections_max
        _log.warning("a connection was turned away: there are %d already (guest_connections_max)", most)
        with connection, suppress(OSError):
            connection.send(pack_frame({**self.hello, "full": most}), socket.MSG_DONTWAIT)

    def freed(self, size: int) -> None:
        """A large request, or answer, is over: let others have its room."""
        self.allowance.give_back(size)
        self._freed += size
        if self._freed >= self._trim_at:  # no lock: now and then is enough
            self._freed = 0
            release_free_memory()

    def left(self, guest: ServerConnection) -> None:
        """A guest has ended. While this closes, its connection stays until the store is closed."""
        with self._lock:
            if self.closing:
                return
            self._guests.discard(guest)
        guest.connection.close()

    def _forget(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_PRODUCERS_S
            with suppress(Error):
                self.store.origins.forget_absent()

    def hush(self, timeout: float | None) -> None:
        """Take in nothing more, and finish what was asked for. New guests find nobody."""
        self._path.unlink(missing_ok=True)
        with self._lock:
            self.closing = True
            guests = list(self._guests)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + (CLOSE_ANSWERS_S if timeout is None else min(timeout, CLOSE_ANSWERS_S))
        for guest in guests:
            guest.hang_up()
        self.allowance.close()
        for guest in guests:
            guest.join(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Hang up: whoever is still connected may own the store now."""
        self._listener.close()
        self._thread.join(1.0)
        self.watch.close()
        for guest in self._guests:
            guest.connection.close()

    def abandon(self) -> None:
        """In the child of a fork: let go of what is the parent's, or its guests would not see it die."""
        self._listener.close()
        self.watch.abandon()
        for guest in self._guests:
            guest.connection.close()


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
