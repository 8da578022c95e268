"""A connection to the owner of a store: one socket, requests and answers as frames.

Commands also reach a store here: they ask the process that has the store open, or hold a closed store.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from mqplug import AlreadyOpen, ConfigError, ConnectError, Timeout
from mqplug.spi import Deadline
from mqplug_rocksmq._engine.directory import OWNER, examine
from mqplug_rocksmq._engine.errors import translate
from mqplug_rocksmq._engine.ownership import Ownership, read_owner
from mqplug_rocksmq._processes.codec import error_from_wire
from mqplug_rocksmq._processes.frames import PROTOCOL, FrameHeader, FrameReader, LargeFrame, pack_frame, user_of

AnswerFrame = tuple[FrameHeader, bytes | memoryview]
"""The header and the body of a frame from the owner."""

RECEIVE_BYTES: Final = 1 << 18
ANSWER_GRACE_S: Final = 0.1  # for an answer to arrive, beyond the timeout of its request
_connections: WeakSet[ClientConnection] = WeakSet()

CONNECT_S = 10.0


class OwnerGone(ConnectError):
    """The owner process has ended."""

    def __init__(self) -> None:
        super().__init__("the process that owned the store has ended", fix="Try again", backend="rocksmq")


class ProtocolMismatch(AlreadyOpen):
    """The owner process runs another version of this plugin."""

    def __init__(self, path: Path, hello: FrameHeader) -> None:
        owner = read_owner(path)
        pid = hello.get("pid", owner and owner.pid)
        super().__init__(
            f"process {pid} owns the store {path} with mqplug-rocksmq {hello.get('version', 'of another version')},"
            f" which speaks protocol {hello.get('protocol')}, not {PROTOCOL}",
            fix="Use the same version of mqplug-rocksmq in all programs of a store", backend="rocksmq",
        )  # fmt: skip


class TooManyConnections(ConnectError):
    """The owner process has as many connections as ``client_connections_max`` allows."""

    def __init__(self, path: Path, hello: FrameHeader) -> None:
        super().__init__(
            f"process {hello.get('pid')} owns the store {path}, and already has {hello['full']} connections of other"
            " processes, as many as client_connections_max allows",
            fix="Close producers, consumers or clients, or raise client_connections_max in the owner",
            backend="rocksmq",
        )


class ClientConnection:
    """One connection to the owner process. Any thread may send a frame; one thread at a time may receive."""

    def __init__(self, address: str, path: Path, timeout: float) -> None:
        self._reader = FrameReader()
        self._large: LargeFrame | None = None  # the frame being received, if it is large
        self._sending = threading.Lock()
        self.usable = True  # no answer is overdue
        try:
            self.socket = socket.socket(socket.AF_UNIX)
        except OSError as error:
            raise translate(error) from error
        _connections.add(self)
        try:
            self._connect(address, timeout)
            self.owner = self._greet(path, timeout)
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str, timeout: float) -> None:
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except TimeoutError as error:
            raise _no_answer(timeout) from error
        except OSError as error:
            raise OwnerGone from error
        if user_of(self.socket) not in {None, os.getuid()}:
            raise ConnectError(
                f"the socket {address} belongs to another user",
                fix="Set XDG_RUNTIME_DIR to a directory of your own", backend="rocksmq", retryable=False,
            )  # fmt: skip

    def _greet(self, path: Path, timeout: float) -> FrameHeader:
        try:
            with suppress(OwnerGone):  # the owner may have refused and hung up already
                self.send_frame({"call": "hello", "protocol": PROTOCOL}, timeout=timeout)
            frame = self.receive_frame(timeout)
        except OwnerGone:
            raise
        except ConnectError as error:
            raise _not_an_owner(path) from error
        if frame is None:
            raise _no_answer(timeout)
        if frame[0].get("protocol") != PROTOCOL:
            raise ProtocolMismatch(path, frame[0])
        if not isinstance(frame[0].get("store"), str):
            raise _not_an_owner(path)
        if "full" in frame[0]:
            raise TooManyConnections(path, frame[0])
        return frame[0]

    def ask(self, request: FrameHeader, *body: bytes, timeout: float) -> AnswerFrame:
        """Send a request and wait for its answer. Raise the error in the answer, if any."""
        answer = self.exchange(request, *body, timeout=timeout)
        raise_error_in(answer[0])
        return answer

    def exchange(self, request: FrameHeader, *body: bytes, timeout: float) -> AnswerFrame:
        """Send a request and return its answer, which may be an error."""
        deadline = Deadline(timeout)
        self.send_frame(request, *body, timeout=timeout)
        answer = self.receive_frame(deadline.remaining())
        if answer is None:
            self.usable = False
            raise _no_answer(timeout)
        return answer

    def send_frame(self, request: FrameHeader, *body: bytes, timeout: float) -> None:
        """Send one frame."""
        frame = pack_frame(request, *body)
        with self._sending:
            try:
                self.socket.settimeout(max(0.001, timeout))
                self.socket.sendall(frame)
            except TimeoutError as error:
                self.socket.close()  # in the middle of a frame: nothing more can be sent
                raise _no_answer(timeout) from error
            except OSError as error:
                raise OwnerGone from error

    def send_frame_nowait(self, request: FrameHeader, *, turn: float = 0.0) -> None:
        """Send a small frame without waiting. Drop it if another frame is being sent for more than *turn* seconds."""
        if self._sending.acquire(timeout=turn):
            try:
                with suppress(OSError):
                    self.socket.send(pack_frame(request), socket.MSG_DONTWAIT)
            finally:
                self._sending.release()

    def receive_frame(self, timeout: float) -> AnswerFrame | None:
        """Return the next frame, or None if none comes in time."""
        deadline = Deadline(timeout)
        while not (frame := self._take_frame()):
            try:
                self.socket.settimeout(max(0.000_001, deadline.remaining()))
                came = self._receive()
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                raise OwnerGone from error
            if not came:
                raise OwnerGone
        return frame

    def _take_frame(self) -> AnswerFrame | None:
        if self._large is None:
            if frame := self._reader.take():
                return frame
            self._large = self._reader.large_frame()
        if self._large is None or self._large.rest:
            return None
        large, self._large = self._large, None
        return large.take()

    def _receive(self) -> int:
        """Return how many bytes came; 0 at the end of the connection."""
        if self._large is not None:
            came = self.socket.recv_into(self._large.rest)
            self._large.received(came)
            return came
        data = self.socket.recv(RECEIVE_BYTES)
        self._reader.feed(data)
        return len(data)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _no_answer(timeout: float) -> Timeout:
    return Timeout(f"the owner of the store did not answer within {timeout:g} s", backend="rocksmq")


def _not_an_owner(path: Path) -> ConnectError:
    return ConnectError(
        f"the process at the socket that {path / OWNER} names is not the owner of a store",
        fix="End the process that owns the store, and connect again", backend="rocksmq", retryable=False,
    )  # fmt: skip


def raise_error_in(header: dict[str, Any]) -> None:
    """Raise the error in an answer, if any."""
    if "error" in header:
        raise error_from_wire(header["error"])


def _hang_up() -> None:
    """Close the parent's sockets in the child of a fork. The owner would not notice the parent's death otherwise."""
    for connection in list(_connections):
        connection.close()


os.register_at_fork(after_in_child=_hang_up)


def existing_store(path: Path, *, named: bool = True) -> Path:
    """Return the path if a store is there. Unless *named*, its identity file may be damaged."""
    if not path.exists():
        raise ConfigError(f"there is no store at {path}", fix="Check the path")
    examine(path, create=False, named=named)
    return path.resolve()


def ask_owner(path: Path, request: FrameHeader, timeout: float) -> FrameHeader | None:
    """Ask the process that has the store open, and return its answer, or None if no process has it open."""
    try:
        Ownership(path, reading=True).release()
    except AlreadyOpen as refused:
        owner = read_owner(path)
        if owner is None or owner.socket is None:
            raise AlreadyOpen(refused.message, fix="Close it there, and try again", backend="rocksmq") from None
        return _ask(owner.socket, path, request, timeout)
    return None


def _ask(address: str, path: Path, request: FrameHeader, timeout: float) -> FrameHeader:
    connection = ClientConnection(address, path, min(timeout, CONNECT_S))
    try:
        return connection.ask(request, timeout=timeout)[0]
    finally:
        connection.close()


@contextmanager
def hold_closed_store(path: Path) -> Iterator[None]:
    """Prevent other processes from opening a closed store until the block ends."""
    ownership = Ownership(path, reading=True)
    try:
        yield
    finally:
        ownership.release()
