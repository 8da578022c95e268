"""Servers that a client does not expect: a closed port, a silent server, another protocol."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Thread

from mqplug_testing._harness.tcp_proxy import HostPort

HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwhat"
)


@contextmanager
def refusing() -> Iterator[HostPort]:
    """Open a port that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: no other process can take it
        yield taken.getsockname()


@contextmanager
def silent() -> Iterator[HostPort]:
    """Open a port whose server accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def answering(answer: bytes, *, hang_up: bool) -> Callable[[], AbstractContextManager[HostPort]]:
    """Return a context manager of a port whose server gives this answer to every request."""

    @contextmanager
    def open_port() -> Iterator[HostPort]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            Thread(target=_serve, args=(server, answer, hang_up), daemon=True).start()
            try:
                yield server.getsockname()
            finally:
                server.shutdown(socket.SHUT_RDWR)  # close by itself would leave the thread waiting in accept

    return open_port


def _serve(server: socket.socket, answer: bytes, hang_up: bool) -> None:
    kept = []
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            kept.append(connection)
            with suppress(OSError):
                connection.settimeout(1)
                connection.recv(1)
                connection.sendall(answer)
                if hang_up:
                    connection.close()
    for connection in kept:
        connection.close()


WRONG_SERVERS: dict[str, Callable[[], AbstractContextManager[HostPort]]] = {
    "a closed port": refusing,
    "a silent server": silent,
    "a web server": answering(HTTP_ANSWER, hang_up=True),
    "garbage": answering(random.Random(7).randbytes(400), hang_up=False),
    "a server that hangs up": answering(b"", hang_up=True),
}
"""Context managers that yield a host and a port, by name."""
