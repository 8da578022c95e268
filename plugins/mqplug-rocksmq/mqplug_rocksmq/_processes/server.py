"""The server of a store: its owner process serves client processes on this host over a Unix socket.

Each connection of a client process has its own thread, which reads requests and answers them. The thread may wait for
the disk or for its turn in a group without holding up others.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

from mqplug import ConnectError, Error
from mqplug.spi import Capabilities, Deadline
from mqplug_rocksmq._driver.connection import StoreConnection
from mqplug_rocksmq._processes.codec import error_to_wire
from mqplug_rocksmq._processes.frames import PROTOCOL, Frame, FrameHeader, FrameReader, pack_frame, process_of, user_of
from mqplug_rocksmq._processes.member_tokens import MemberTokens
from mqplug_rocksmq._processes.owner_services import (
    UNCOUNTED_BYTES,
    ConsumerRegistry,
    MemoryAllowance,
    ServedObject,
    SessionConnection,
    release_free_memory,
)
from mqplug_rocksmq._processes.requests import answer_request
from mqplug_rocksmq._processes.served_consumer import ServedConsumer
from mqplug_rocksmq._processes.served_producer import ServedProducer
from mqplug_rocksmq._settings import PLUGIN_VERSION
from mqplug_rocksmq._store.store import Store

HELLO_S: Final = 5.0
SEND_ANSWER_S: Final = 30.0  # in which a client must read an answer
STALLED_REQUEST_S: Final = 30.0  # of silence in the middle of a large request
COPIES_PER_REQUEST: Final = 4  # in memory while a request is stored, at most
_RECEIVE_BYTES: Final = 1 << 18
_TIMEVAL: Final = Struct("ll")
_log = logging.getLogger("mqplug.rocksmq")

_SESSIONS: Final[dict[str, Callable[[SessionConnection, FrameHeader], ServedObject]]] = {
    "produce": ServedProducer,
    "consume": ServedConsumer,
}
FORGET_PRODUCERS_S: Final = 600.0  # after which producers that did not come back are forgotten
CLOSE_ANSWERS_S: Final = 3.0  # in which pending requests are answered when the store is closed
_ACCEPT_ROUND_S: Final = 60.0


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
        """Refuse a connection above the limit with a reason, without waiting for the client."""
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
        """Accept no more requests, and finish the pending ones."""
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


class ServerConnection:
    """One connection of a client process."""

    def __init__(self, accepted: socket.socket, server: StoreServer) -> None:
        self.server = server
        self.socket = accepted
        self.process = process_of(accepted)
        # Not by settimeout, which takes more system calls: after each, a busy interpreter may make this thread wait.
        accepted.settimeout(None)
        self._limit(socket.SO_SNDTIMEO, SEND_ANSWER_S)
        self._sending = threading.Lock()
        self._reader = FrameReader()
        self._session: ServedObject | None = None
        self._hung_up = False
        self._taken = 0  # of the allowance, for the request in progress
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-client", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self.socket.fileno()

    @property
    def more_came(self) -> bool:
        """Whether bytes were read that are not served yet."""
        return bool(self._reader)

    def _run(self) -> None:
        try:
            self._greet()
            while frame := self.receive_frame(None):
                self._serve(*frame)
                del frame
                self._give_back()
        except TimeoutError:
            _log.warning(
                "store %s: disconnected process %s: it was silent, or did not read its answers, for too long",
                self.server.store.path, self.process,
            )  # fmt: skip
        except OSError:
            """The client is gone."""
        except (ConnectError, KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning(
                "store %s: disconnected process %s after a malformed request: %r",
                self.server.store.path, self.process, error,
            )  # fmt: skip
        except Exception:  # noqa: BLE001 - one client's errors must not affect the others
            _log.exception("store %s: a request of process %s failed", self.server.store.path, self.process)
        finally:
            self._end()

    def _end(self) -> None:
        self._give_back()
        try:
            if self._session is not None:
                self._session.leave(for_good=not (self._hung_up or self.server.closing))
        except Exception:  # noqa: BLE001 - the same
            _log.exception("store %s: ending the session of process %s failed", self.server.store.path, self.process)
        self.server.ended(self)

    def _greet(self) -> None:
        frame = self.receive_frame(HELLO_S)
        if frame is None or frame[0]["call"] != "hello":
            raise ConnectError("its first request was not hello")
        self.send_frame(self.server.hello)
        if frame[0]["protocol"] != PROTOCOL:
            raise ConnectError(f"it speaks protocol {frame[0]['protocol']}, not {PROTOCOL}")

    def _serve(self, header: FrameHeader, body: bytes) -> None:
        if self._session is not None:
            self._session.serve(header, body)
            return
        open_session = _SESSIONS.get(header["call"])
        if open_session is None:
            self.send_frame(answer_request(self.server, header, body))
            return
        try:
            self._session = open_session(self, header)
        except Exception as error:  # noqa: BLE001 - the client raises it
            self.send_frame({"error": error_to_wire(error)})
        else:
            self._limit_silence()

    def _limit_silence(self) -> None:
        """Set how long the client may be silent: in the middle of a large request, or in its session."""
        silence = self._session.silence if self._session is not None else None
        self._limit(socket.SO_RCVTIMEO, STALLED_REQUEST_S if self._taken else silence or 0)

    def _limit(self, option: int, seconds: float) -> None:
        """Have the system end any call that takes longer; 0 means no limit."""
        whole = int(seconds)
        self.socket.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(whole, int((seconds - whole) * 1e6)))

    # frames ------------------------------------------------------------------------------------------------

    def receive_frame(self, timeout: float | None) -> Frame | None:
        """Return the next frame, or None at the end of the connection. Raise ``TimeoutError`` if none comes in time."""
        if timeout is None:
            return self._receive()
        deadline = Deadline(timeout)
        try:
            return self._receive(lambda: self.socket.settimeout(max(0.001, deadline.remaining())))
        finally:
            self.socket.settimeout(None)

    def _receive(self, before: Callable[[], None] | None = None) -> Frame | None:
        while not (frame := self._reader.take()):
            size = self._take_room(self._reader.wanted)
            if before is not None:
                before()
            try:
                data = self.socket.recv(size)
            except BlockingIOError as error:  # it was silent for too long
                raise TimeoutError from error
            if not data:
                return None
            self._reader.feed(data)
        if self._taken:
            self._limit_silence()
        return frame

    def _take_room(self, size: int) -> int:
        """Wait until a large request fits into memory. Return how many bytes to read at once."""
        if size <= UNCOUNTED_BYTES:
            return UNCOUNTED_BYTES
        if not self._taken:
            self._taken = self.server.allowance.take(COPIES_PER_REQUEST * size)
            self._limit_silence()
        return min(_RECEIVE_BYTES, size - len(self._reader))

    def _give_back(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self.server.give_back(taken)

    def send_frame(self, header: FrameHeader, *body: bytes) -> None:
        """Send a frame. Raise if the client does not read it in time."""
        size = sum(map(len, body))
        if size <= UNCOUNTED_BYTES:
            self._send(header, *body)
            return
        self._give_back()  # otherwise two connections with a large request each could wait for each other
        taken = self.server.allowance.take(2 * size)
        try:
            self._send(header, *body)
        finally:
            self.server.give_back(taken)

    def _send(self, header: FrameHeader, *body: bytes) -> None:
        with self._sending:
            self.socket.sendall(pack_frame(header, *body))

    def send_frame_nowait(self, header: FrameHeader, *body: bytes) -> None:
        """Send a small frame without waiting, from any thread. Hang up on a client that reads nothing."""
        frame = pack_frame(header, *body)
        with self._sending:
            try:
                sent = self.socket.send(frame, socket.MSG_DONTWAIT)
            except OSError:
                sent = 0
            if sent < len(frame):
                self.hang_up()

    # ending ------------------------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Stop reading from the client."""
        self._hung_up = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def join(self, timeout: float) -> None:
        """Wait until all requests of the client are done."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
