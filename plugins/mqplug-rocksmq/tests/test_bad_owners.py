"""Other programs at the owner's socket: foreign sockets, owners of another version, and dead owners."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest
from refused_openings import QUICK, connect, held, untouched
from rocksmq_stores import python
from store_seam import PROTOCOL, pack_frame, read_owner

import mqplug
from mqplug import AlreadyOpen, ConnectError


@contextmanager
def answering(store: Path, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """A held store with another program at its socket."""
    address = Path(os.environ["XDG_RUNTIME_DIR"], "stranger.sock")
    with socket.socket(socket.AF_UNIX) as listener, held(store, {"pid": 1, "socket": str(address)}):
        listener.bind(str(address))
        listener.listen()
        thread = threading.Thread(target=_answer, args=(listener, talk))
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            address.unlink()


def _answer(listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                talk(connection)


def _says(answer: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.recv(1)  # until the other side hangs up

    return talk


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"MQF1" + b"\xff" * 8,
        b"MQF1\x02\0\0\0\0\0\0\0[]",
        pack_frame({"protocol": PROTOCOL}),
        pack_frame({"protocol": PROTOCOL, "store": 5}),
    ],
)
def test_a_socket_that_is_not_ours(closed: Path, answer: bytes) -> None:
    """A foreign program at the owner's socket is reported at once, with the file that names the socket."""
    began = monotonic()
    with (
        answering(closed, _says(answer)),
        untouched(closed),
        pytest.raises(ConnectError, match="owner names is not the owner of a store") as refused,
    ):
        mqplug.connect("rocksmq", path=str(closed), timeout=30)
    assert not refused.value.retryable
    assert monotonic() - began < QUICK


def test_a_socket_that_says_nothing(closed: Path) -> None:
    """If nothing answers, as with a suspended owner, the timeout ends the attempt."""
    ended = threading.Event()
    with answering(closed, lambda _: ended.wait(30) and None), untouched(closed):
        with pytest.raises(mqplug.Timeout, match="did not answer"):
            connect(closed, timeout=2)
        ended.set()


def test_a_socket_that_hangs_up(closed: Path) -> None:
    """If every connection is closed at once, as by an ending owner, attempts continue until the timeout."""
    with answering(closed, lambda _: None), untouched(closed), pytest.raises(AlreadyOpen, match="owned by process 1"):
        connect(closed, timeout=2)


def test_an_owner_of_an_older_version(closed: Path) -> None:
    """An owner with an older protocol is reported at once, with both versions."""
    hello = pack_frame({"id": "x", "protocol": 1, "pid": 1, "version": "0.0.1"})
    began = monotonic()
    with (
        answering(closed, _says(hello)),
        untouched(closed),
        pytest.raises(AlreadyOpen, match=r"process 1 owns the store .*0\.0\.1.*protocol 1"),
    ):
        mqplug.connect("rocksmq", path=str(closed), timeout=30)
    assert monotonic() - began < QUICK


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "[" * 9999,
        '{"pid": 1e999, "socket": "x"}',
        {"pid": 1, "socket": 5},
        {"pid": 1, "socket": None},
        {"pid": 1, "socket": "a\0b"},
        {"pid": 1, "socket": "\udc00"},
        {"pid": 1, "socket": "x" * 500},
        {"pid": 1, "socket": "/nowhere/at/all"},
        {"pid": 1, "socket": "/"},
    ],
)
def test_an_owner_that_cannot_be_reached(closed: Path, said: object) -> None:
    """A client that cannot reach a live owner gets ``AlreadyOpen`` at the timeout, whatever the owner file contains."""
    with held(closed, said), untouched(closed), pytest.raises(AlreadyOpen, match="is owned by"):
        mqplug.connect("rocksmq", path=str(closed), timeout=2)


@pytest.mark.parametrize("said", ["", "[]", '{"pid": 1, "socket": 5}', '{"pid": 1, "socket": "/nowhere"}'])
def test_a_dead_owner(closed: Path, said: str) -> None:
    """Whatever a dead owner left in its file, the store opens, and other processes can reach its new owner."""
    (closed / "owner").write_text(said)
    with connect(closed):
        owner = read_owner(closed)
        assert owner is not None
        assert owner.pid == os.getpid()
        assert owner.socket is not None


def test_a_stale_socket(closed: Path) -> None:
    """A socket left by a dead owner is replaced, and works."""
    with connect(closed):
        owner = read_owner(closed)
    assert owner is not None
    assert owner.socket is not None
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(owner.socket)
    with connect(closed), python("mqplug.connect('rocksmq', path=str(path)).topics()", closed) as guest:
        assert guest.wait(30) == 0
