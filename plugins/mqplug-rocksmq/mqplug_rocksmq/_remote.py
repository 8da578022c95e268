"""A store that another process owns, read through the owner's socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import mqplug
from mqplug import AlreadyOpen, Closed, ConnectError, Error, Timeout
from mqplug_rocksmq._frames import MAX_BODY, Header, Inbox, pack
from mqplug_rocksmq._layout import Place
from mqplug_rocksmq._log import Extent
from mqplug_rocksmq._ownership import owner_of
from mqplug_rocksmq._page import Page
from mqplug_rocksmq._reading import Slice, Trimmed
from mqplug_rocksmq._topics import Retention, Topic

_ANSWER_TIME: Final = 10.0
_FIRST: Final = {"messages": 1000, "bytes": 1 << 20}  # what a wait that ends brings along
_NOTHING: Final[tuple[tuple[int, int], list[Slice]]] = ((-1, -1), [])


class RemoteStore:
    """What can be read of a store without owning it; any thread may call."""

    def __init__(self, path: Path, timeout: float = _ANSWER_TIME) -> None:
        self.path = path
        self._timeout = min(timeout, _ANSWER_TIME)
        self._address = _address(path)
        self._idle: list[_Connection] = []
        self._ahead = _NOTHING
        self._closed = False
        self.topics = RemoteTopics(self)
        self.groups = RemoteGroups(self)
        self.id = str(self.ask({"call": "hello"})[0]["id"])
        self._timeout = _ANSWER_TIME

    def ask(self, request: Header, patience: float = 0.0) -> tuple[Header, bytes]:
        """Send a request and return its answer; raises what the owner says went wrong."""
        if self._closed:
            raise Closed("the store is closed", fix="Open it again")
        connection = self._idle.pop() if self._idle else _Connection(self._address)
        try:
            header, body = connection.ask(pack(request), self._timeout + patience)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        _raise_refusal(header)
        return header, body

    def read(self, number: int, offset: int, max_messages: int = 1000, max_bytes: int = 1 << 20) -> list[Slice]:
        """Return messages from *offset* on; ``Trimmed`` if retention removed the message at *offset*."""
        place, slices = self._ahead
        if place == (number, offset) and sum(map(len, slices)) <= max_messages:
            self._ahead = _NOTHING
            return slices
        request = {"call": "read", "log": number, "offset": offset, "messages": max_messages, "bytes": max_bytes}
        header, body = self.ask(request)
        if "trimmed" in header:
            raise Trimmed(header["trimmed"])
        return _slices(header, body)

    def watermarks(self, numbers: Sequence[int]) -> list[Extent]:
        """Return how far each of these logs reaches."""
        found = self.ask({"call": "watermarks", "logs": list(numbers)})[0]["watermarks"]
        return [Extent(*each) for each in found]

    def check(self) -> None:
        """Raise unless the owner answers."""
        self.ask({"call": "hello"})

    def bounds(self, number: int) -> tuple[int, int] | None:
        """Return the offsets of the first and the last message, or None where there is none."""
        found = self.ask({"call": "bounds", "log": number})[0]["bounds"]
        return None if found is None else (found[0], found[1])

    def first_at(self, number: int, milliseconds: int) -> int:
        """Return the offset of the first message with this timestamp or a later one, else the high."""
        return int(self.ask({"call": "first_at", "log": number, "time": milliseconds})[0]["offset"])

    def nth_last(self, number: int, count: int) -> int:
        """Return the offset of the message that has *count* - 1 messages behind it, or of the first."""
        return int(self.ask({"call": "nth_last", "log": number, "count": count})[0]["offset"])

    def wait(self, offsets: Mapping[int, int], timeout: float | None) -> bool:
        """Wait until there is a message to read at or behind one of these offsets; False if there was none in time."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30.0 if end is None else min(max(0.0, end - time.monotonic()), 30.0)
            request = {"call": "wait", "offsets": list(offsets.items()), "timeout": left, **_FIRST}
            header, body = self.ask(request, left)
            if "pages" in header:
                self._ahead = (header["log"], header["offset"]), _slices(header, body)
            if header["more"]:
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def close(self, timeout: float | None = None) -> None:
        """Hang up."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _slices(header: Header, body: bytes) -> list[Slice]:
    slices, at = [], 0
    for base, start, stop, length in header["pages"]:
        slices.append(Slice(base, Page(body[at : at + length]), start, stop))
        at += length
    return slices


class RemoteTopics:
    """The topics of a remote store."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._store.ask({"call": "names"})[0]["names"])

    def get(self, name: str) -> Topic:
        """Return a topic, or raise ``TopicNotFound``."""
        found = self._store.ask({"call": "topic", "name": name})[0]
        return Topic(name, tuple(found["logs"]), Retention(**found["retention"]))


class RemoteGroups:
    """The groups of a remote store."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def names(self, log: int | None = None) -> list[str]:
        """Return the groups that have a place in this log, or in any."""
        return list(self._store.ask({"call": "groups", "log": log})[0]["names"])

    def place(self, group: str, log: int) -> Place | None:
        """Return how far a group has come in a log, or None where it has no place yet."""
        found = self._store.ask({"call": "place", "group": group, "log": log})[0]["place"]
        return None if found is None else Place(found[0], tuple((start, stop) for start, stop in found[1]))


class _Connection:
    """One conversation with the owner; requests and answers take turns."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._inbox = Inbox(MAX_BODY)
        try:
            self._socket.settimeout(_ANSWER_TIME)
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise _gone() from error

    def ask(self, frame: bytes, timeout: float) -> tuple[Header, bytes]:
        end = time.monotonic() + timeout
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(frame)
            while not (answer := self._inbox.take()):
                self._socket.settimeout(max(0.001, end - time.monotonic()))
                data = self._socket.recv(1 << 20)
                if not data:
                    raise _gone()
                self._inbox.feed(data)
        except TimeoutError as error:
            raise Timeout(f"the owner of the store did not answer within {timeout:g} s", backend="rocksmq") from error
        except OSError as error:
            raise _gone() from error
        return answer

    def close(self) -> None:
        self._socket.close()


def _address(path: Path) -> str:
    owner = owner_of(path)
    if owner is None or owner.socket is None:
        raise AlreadyOpen(
            f"the store {path} is owned by a process that serves no others", fix="Close it there", backend="rocksmq"
        )
    return owner.socket


def _gone() -> ConnectError:
    return ConnectError("the process that owns the store is gone", fix="Connect again", backend="rocksmq")


def _raise_refusal(header: Header) -> None:
    if "error" not in header:
        return
    kind = getattr(mqplug, str(header["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, Error)):
        kind = ConnectError
    raise kind(str(header["message"]), fix=header.get("fix"), backend="rocksmq", topic=header.get("topic"))
