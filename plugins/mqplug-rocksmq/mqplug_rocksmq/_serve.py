"""The owner of a store serves other processes on this host: one thread, over a Unix socket."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqplug import ConnectError, Error
from mqplug_rocksmq._answers import answer, news, refusal
from mqplug_rocksmq._frames import Header, Inbox, pack
from mqplug_rocksmq._store import Store

_LONGEST_WAIT: Final = 60.0
_log = logging.getLogger("mqplug.rocksmq")


class Server:
    """Answers until closed."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._selector = selectors.DefaultSelector()
        self._clients: set[_Client] = set()
        self._stopping = False
        self._listener = _listen(path)
        self._ears, self._mouth = socket.socketpair()
        for end in (self._listener, self._ears, self._mouth):
            end.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ears, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-serve", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have those who wait looked after; called by whoever stored something."""
        with contextlib.suppress(OSError):
            self._mouth.send(b"!")

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._next_deadline()):
                self._serve(key.fileobj, key.data)
            for client in list(self._clients):
                if client.waiting:
                    self._attend(client, client.settle)
        for client in list(self._clients):
            self._drop(client)
        for end in (self._listener, self._ears, self._mouth, self._selector):
            end.close()

    def _serve(self, ready: object, client: _Client | None) -> None:
        if client is not None:
            self._attend(client, client.converse)
        elif ready is self._listener:
            self._welcome()
        else:
            with contextlib.suppress(BlockingIOError):
                self._ears.recv(4096)

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        client = _Client(connection, self._store, self)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _attend(self, client: _Client, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, ConnectError):
            self._drop(client)
        except Exception:  # noqa: BLE001 - whatever one client brings about, the others are served
            _log.exception("a request from another process could not be answered")
            self._drop(client)
        else:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outgoing else 0)
            self._selector.modify(client.connection, events, client)

    def _drop(self, client: _Client) -> None:
        self._clients.discard(client)
        self._selector.unregister(client.connection)
        client.close()

    def _next_deadline(self) -> float | None:
        deadlines = [client.waiting.deadline for client in self._clients if client.waiting]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def close(self, timeout: float | None) -> None:
        """Stop answering; the socket is gone afterwards."""
        self._path.unlink(missing_ok=True)
        self._stopping = True
        self.wake()
        self._thread.join(timeout)


class _Wait:
    """A client's wish to be told when there is more to read."""

    def __init__(self, request: Header) -> None:
        self.offsets = {int(log): int(offset) for log, offset in request["offsets"]}
        self.request = request
        self.deadline = time.monotonic() + min(float(request["timeout"]), _LONGEST_WAIT)


class _Client:
    """One connection: what came, what is to go, and what it waits for."""

    def __init__(self, connection: socket.socket, store: Store, server: Server) -> None:
        self.connection = connection
        self.outgoing = bytearray()
        self.waiting: _Wait | None = None
        self._store = store
        self._server = server
        self._inbox = Inbox(max_body=0)

    def converse(self) -> None:
        """Take what came, answer it, and send what the connection takes."""
        with contextlib.suppress(BlockingIOError):
            data = self.connection.recv(1 << 16)
            if not data:
                raise ConnectError("the other process is gone")
            self._inbox.feed(data)
        while not self.waiting and (frame := self._inbox.take()):
            self._reply(frame[0])
        self._send()

    def _reply(self, request: Header) -> None:
        if request.get("call") != "wait":
            self.outgoing += answer(self._store, request)
            return
        try:
            self._wait(_Wait(request))
        except Error as error:
            self.outgoing += pack(refusal(error))
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectError("a request to wait was not understood") from error

    def _wait(self, wait: _Wait) -> None:
        watched: list[int] = []
        try:
            for log in wait.offsets:
                self._store.watch(log, self._server.wake)
                watched.append(log)
        except Error:
            self._unwatch(watched)
            raise
        self.waiting = wait
        self.settle()

    def settle(self) -> None:
        """Answer the wait if there is more to read, or nothing came in time."""
        wait = self.waiting
        if wait is None:
            return
        try:
            frame = news(self._store, wait.offsets, wait.request)
        except Error as error:
            frame = pack(refusal(error))
        if frame is None and time.monotonic() >= wait.deadline:
            frame = pack({"more": False})
        if frame is not None:
            self._unwatch(list(wait.offsets))
            self.waiting = None
            self.outgoing += frame
            self._send()

    def _unwatch(self, logs: list[int]) -> None:
        for log in logs:
            self._store.unwatch(log, self._server.wake)

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.outgoing:
                sent = self.connection.send(memoryview(self.outgoing)[: 1 << 18])
                del self.outgoing[:sent]

    def close(self) -> None:
        if self.waiting:
            self._unwatch(list(self.waiting.offsets))
            self.waiting = None
        self.connection.close()


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener
