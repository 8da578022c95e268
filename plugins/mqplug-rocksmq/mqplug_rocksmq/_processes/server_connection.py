"""The other processes that use a store through its owner: one connection each, one thread each.

A thread may wait, for the disk or for its turn in a group, without holding up the others.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final, Protocol

from mqplug import ConnectError
from mqplug_rocksmq._processes.codec import error_to_json
from mqplug_rocksmq._processes.consumer_session import ConsumerSession
from mqplug_rocksmq._processes.frames import PROTOCOL, Frame, FrameHeader, FrameReader, pack_frame
from mqplug_rocksmq._processes.memory_allowance import MemoryAllowance
from mqplug_rocksmq._processes.producer_session import ProducerSession
from mqplug_rocksmq._processes.requests import answer_request
from mqplug_rocksmq._processes.session import OwnerServices, Session

HELLO_S: Final = 5.0
SEND_ANSWER_S: Final = 30.0  # seconds that a guest may take to read an answer, or to give up what it holds
STALLED_REQUEST_S: Final = 30.0  # seconds that a guest may be silent in the midst of a large request
UNCOUNTED_BYTES: Final = 1 << 14  # bytes of a request, or an answer, that need no room of the allowance
COPIES_PER_REQUEST: Final = 4  # how often a request is in memory while it is stored, at the most
_RECEIVE_BYTES: Final = 1 << 18
_TIMEVAL: Final = Struct("ll")
_log = logging.getLogger("mqplug.rocksmq")


class ConnectionHost(OwnerServices, Protocol):
    """The server, as its connections see it."""

    allowance: MemoryAllowance
    hello: FrameHeader
    closing: bool

    def freed(self, size: int) -> None:
        """A large request, or answer, is over: let others have its room."""

    def left(self, guest: ServerConnection) -> None:
        """A connection has ended."""


class ServerConnection:
    """One connection of another process."""

    def __init__(self, connection: socket.socket, server: ConnectionHost) -> None:
        self.server = server
        self.connection = connection
        # Not by settimeout: that takes more calls, after each of which a busy interpreter may let us wait.
        connection.settimeout(None)
        self._limit(socket.SO_SNDTIMEO, SEND_ANSWER_S)
        self._saying = threading.Lock()
        self._inbox = FrameReader()
        self._role: Session | None = None
        self._hung_up = False
        self._taken = 0  # of the allowance, for the request that is under way
        self._thread = threading.Thread(target=self._run, name="mqplug-rocksmq-guest", daemon=True)

    def start(self) -> None:
        """Begin to serve it."""
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor of its socket."""
        return self.connection.fileno()

    @property
    def more_came(self) -> bool:
        """Whether something was read that is not served yet."""
        return bool(self._inbox)

    def _run(self) -> None:
        try:
            self._greet()
            while frame := self.hear(None):
                self._serve(*frame)
                del frame
                self._give_back()
        except TimeoutError:
            _log.warning("a process that stands still, or does not answer in time, is no guest any more")
        except OSError:
            """It is gone."""
        except (ConnectError, KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("a connection from another process was ended, because it made no sense: %r", error)
        except Exception:  # noqa: BLE001 - whatever one guest brings about, the others are served
            _log.exception("a request from another process failed")
        finally:
            self._end()

    def _end(self) -> None:
        self._give_back()
        try:
            if self._role is not None:
                self._role.leave(for_good=not (self._hung_up or self.server.closing))
        except Exception:  # noqa: BLE001 - the same
            _log.exception("a connection from another process could not be ended in order")
        self.server.left(self)

    def _greet(self) -> None:
        frame = self.hear(HELLO_S)
        if frame is None or frame[0]["call"] != "hello":
            raise ConnectError("it did not say hello")
        self.say(self.server.hello)
        if frame[0]["protocol"] != PROTOCOL:
            raise ConnectError(f"it speaks protocol {frame[0]['protocol']}")

    def _serve(self, header: FrameHeader, body: bytes) -> None:
        if self._role is not None:
            self._role.serve(header, body)
            return
        opening = _ROLES.get(header["call"])
        if opening is None:
            self.say(answer_request(self.server, header))
            return
        try:
            self._role = opening(self, header)
        except Exception as error:  # noqa: BLE001 - the guest is told
            self.say({"error": error_to_json(error)})
        else:
            self._limit_silence()

    def _limit_silence(self) -> None:
        """Hang up on who says nothing for too long: in the midst of a large request, or at all."""
        silence = self._role.silence if self._role is not None else None
        self._limit(socket.SO_RCVTIMEO, STALLED_REQUEST_S if self._taken else silence or 0)

    def _limit(self, what: int, seconds: float) -> None:
        """Have the system end a call that takes longer; 0 is no limit."""
        whole = int(seconds)
        self.connection.setsockopt(socket.SOL_SOCKET, what, _TIMEVAL.pack(whole, int((seconds - whole) * 1e6)))

    # talking -----------------------------------------------------------------------------------------------

    def hear(self, timeout: float | None) -> Frame | None:
        """Return the next frame; None at the end of the connection. ``TimeoutError`` where none came in time."""
        if timeout is None:
            return self._hear()
        end = time.monotonic() + timeout
        try:
            return self._hear(lambda: self.connection.settimeout(max(0.001, end - time.monotonic())))
        finally:
            self.connection.settimeout(None)

    def _hear(self, before: Callable[[], None] | None = None) -> Frame | None:
        while not (frame := self._inbox.take()):
            piece = self._make_room(self._inbox.wanted)
            if before is not None:
                before()
            try:
                data = self.connection.recv(piece)
            except BlockingIOError as error:  # it was silent for too long
                raise TimeoutError from error
            if not data:
                return None
            self._inbox.feed(data)
        if self._taken:
            self._limit_silence()
        return frame

    def _make_room(self, size: int) -> int:
        """Wait until a large request fits into memory; return how much of it to take in at once."""
        if size <= UNCOUNTED_BYTES:
            return UNCOUNTED_BYTES
        if not self._taken:
            self._taken = self.server.allowance.take(COPIES_PER_REQUEST * size)
            self._limit_silence()
        return min(_RECEIVE_BYTES, size - len(self._inbox))

    def _give_back(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self.server.freed(taken)

    def say(self, header: FrameHeader, *body: bytes) -> None:
        """Send a frame. A guest that does not read it in time is no guest any more."""
        size = sum(map(len, body))
        if size <= UNCOUNTED_BYTES:
            self._send(header, *body)
            return
        self._give_back()  # or two that have a large request would wait for each other
        taken = self.server.allowance.take(2 * size)
        try:
            self._send(header, *body)
        finally:
            self.server.freed(taken)

    def _send(self, header: FrameHeader, *body: bytes) -> None:
        with self._saying:
            self.connection.sendall(pack_frame(header, *body))

    def remark(self, header: FrameHeader) -> None:
        """Send a small frame without waiting, from any thread; a guest that reads nothing is hung up on."""
        frame = pack_frame(header)
        with self._saying:
            try:
                sent = self.connection.send(frame, socket.MSG_DONTWAIT)
            except OSError:
                sent = 0
            if sent < len(frame):
                self.hang_up()

    # ending ------------------------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Hear nothing more from it."""
        self._hung_up = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def join(self, timeout: float) -> None:
        """Wait until all that it asked for is done."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)


_ROLES: Final[dict[str, Callable[[ServerConnection, FrameHeader], Session]]] = {
    "produce": ProducerSession,
    "consume": ConsumerSession,
}
