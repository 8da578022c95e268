"""A peer on loopback that is not a broker, or a broker that misbehaves: a function serves each connection."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress

from mqplug_pulsar._format.binary_protocol import field, fields

__all__ = ["command", "fields", "hang_up", "peer", "relay", "says", "silent"]


@contextmanager
def peer(serve):
    """Yield the port of a server that calls ``serve`` with each connection on a thread, and then keeps it open."""
    opened, threads = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            with suppress(OSError):  # the server was closed
                while True:
                    connection, _ = server.accept()
                    opened.append(connection)
                    threads.append(threading.Thread(target=attempt, args=(connection,)))
                    threads[-1].start()

        def attempt(connection):
            with suppress(OSError):  # the other side has gone
                serve(connection)

        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            for thread in threads:
                thread.join()


def silent(connection):
    """Send nothing."""


def hang_up(connection):
    """Close the connection as soon as something arrives."""
    connection.recv(1)
    connection.shutdown(socket.SHUT_RDWR)


def says(*answers):
    """Return a function that answers each command with the next of these answers, and then sends nothing."""

    def serve(connection):
        for answer in answers:
            connection.recv(65536)
            connection.sendall(answer)

    return serve


def relay(behind, edit):
    """Return a function that connects to a broker's port and passes its frames on as ``edit`` returns them."""

    def serve(connection):
        with socket.create_connection(("127.0.0.1", behind)) as broker:
            forth = threading.Thread(target=pump, args=(connection, broker))
            forth.start()
            with broker.makefile("rb") as frames, suppress(OSError):
                while size := frames.read(4):
                    connection.sendall(edit(size + frames.read(int.from_bytes(size, "big"))))
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            forth.join()

    def pump(source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    return serve


def command(kind, *fields):
    """Return a command of Pulsar's protocol, made of its type and its fields as (number, value)."""
    body = field(1, kind) + field(kind, b"".join(field(*each) for each in fields))
    return struct.pack(">II", len(body) + 4, len(body)) + body
