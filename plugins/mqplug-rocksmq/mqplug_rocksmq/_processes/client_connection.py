"""A client's conversation with the process that owns a store: one socket, and one side of the talk."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from mqplug import AlreadyOpen, ConnectError, Timeout
from mqplug_rocksmq._engine.directory import OWNER
from mqplug_rocksmq._engine.ownership import owner_of
from mqplug_rocksmq._processes.codec import error_from_json
from mqplug_rocksmq._processes.frames import PROTOCOL, Frame, FrameHeader, FrameReader, pack_frame
from mqplug_rocksmq._processes.peer import user_of

RECEIVE_BYTES: Final = 1 << 18
_links: WeakSet[ClientConnection] = WeakSet()


class OwnerGone(ConnectError):
    """The owner has left, or was killed."""

    def __init__(self) -> None:
        super().__init__("the process that owned the store is gone", fix="Try again", backend="rocksmq")


class ProtocolMismatch(AlreadyOpen):
    """The owner is a program of another version."""

    def __init__(self, path: Path, said: FrameHeader) -> None:
        owner = owner_of(path)
        pid = said.get("pid", owner and owner.pid)
        super().__init__(
            f"process {pid} owns the store {path} with mqplug-rocksmq {said.get('version', 'of another version')},"
            f" which speaks protocol {said.get('protocol')}, and not {PROTOCOL}",
            fix="Use the same version of mqplug-rocksmq in all programs of a store", backend="rocksmq",
        )  # fmt: skip


class TooManyConnections(ConnectError):
    """The owner has as many guests as it may."""

    def __init__(self, path: Path, said: FrameHeader) -> None:
        super().__init__(
            f"process {said.get('pid')} owns the store {path}, and has {said['full']} connections of other processes"
            " already, as many as guest_connections_max allows",
            fix="Close producers, consumers or clients, or have the owner connect with a larger guest_connections_max",
            backend="rocksmq",
        )


class ClientConnection:
    """One connection to the owner. One thread at a time receives; any may ``say`` something."""

    def __init__(self, address: str, path: Path, timeout: float) -> None:
        self._inbox = FrameReader()
        self._saying = threading.Lock()
        self.usable = True  # no answer is overdue
        self.socket = socket.socket(socket.AF_UNIX)
        _links.add(self)
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
            raise _silent(timeout) from error
        except OSError as error:
            raise OwnerGone from error
        if user_of(self.socket) not in {None, os.getuid()}:
            raise ConnectError(
                f"the socket {address} belongs to another user",
                fix="Set XDG_RUNTIME_DIR to a directory of your own", backend="rocksmq", retryable=False,
            )  # fmt: skip

    def _greet(self, path: Path, timeout: float) -> FrameHeader:
        try:
            with suppress(OwnerGone):  # it may have said all that it has to say, and hung up
                self.say({"call": "hello", "protocol": PROTOCOL}, timeout=timeout)
            frame = self.hear(timeout)
        except OwnerGone:
            raise
        except ConnectError as error:
            raise _stranger(path) from error
        if frame is None:
            raise _silent(timeout)
        if frame[0].get("protocol") != PROTOCOL:
            raise ProtocolMismatch(path, frame[0])
        if not isinstance(frame[0].get("store"), str):
            raise _stranger(path)
        if "full" in frame[0]:
            raise TooManyConnections(path, frame[0])
        return frame[0]

    def ask(self, request: FrameHeader, *body: bytes, timeout: float) -> Frame:
        """Send a request and wait for its answer; raises what the owner says went wrong."""
        end = time.monotonic() + timeout
        self.say(request, *body, timeout=timeout)
        answer = self.hear(max(0.0, end - time.monotonic()))
        if answer is None:
            self.usable = False
            raise _silent(timeout)
        raise_refusal(answer[0])
        return answer

    def say(self, request: FrameHeader, *body: bytes, timeout: float) -> None:
        """Send one frame."""
        frame = pack_frame(request, *body)
        with self._saying:
            try:
                self.socket.settimeout(max(0.001, timeout))
                self.socket.sendall(frame)
            except TimeoutError as error:
                self.socket.close()  # in the midst of a frame: nothing more can be said
                raise _silent(timeout) from error
            except OSError as error:
                raise OwnerGone from error

    def nudge(self, request: FrameHeader) -> None:
        """Send a small frame unless something is being sent just now; never waits."""
        if self._saying.acquire(blocking=False):
            try:
                with suppress(OSError):
                    self.socket.send(pack_frame(request), socket.MSG_DONTWAIT)
            finally:
                self._saying.release()

    def hear(self, timeout: float) -> Frame | None:
        """Return the next frame; None where none came in time."""
        end = time.monotonic() + timeout
        while not (frame := self._inbox.take()):
            try:
                self.socket.settimeout(max(0.000_001, end - time.monotonic()))
                data = self.socket.recv(RECEIVE_BYTES)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                raise OwnerGone from error
            if not data:
                raise OwnerGone
            self._inbox.feed(data)
        return frame

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def _silent(timeout: float) -> Timeout:
    return Timeout(f"the owner of the store did not answer within {timeout:g} s", backend="rocksmq")


def _stranger(path: Path) -> ConnectError:
    return ConnectError(
        f"what answers at the socket that {path / OWNER} names is no owner of a store",
        fix="End the process that owns the store, and connect again", backend="rocksmq", retryable=False,
    )  # fmt: skip


def raise_refusal(header: dict[str, Any]) -> None:
    """Raise what the owner says went wrong, if anything did."""
    if "error" in header:
        raise error_from_json(header["error"])


def _hang_up() -> None:
    """In the child of a fork: let go of what is the parent's, or the owner would not see the parent die."""
    for link in list(_links):
        link.close()


os.register_at_fork(after_in_child=_hang_up)
