"""What many tests do."""

from __future__ import annotations

import itertools
import os
import socket
import time

_numbers = itertools.count()


def new_name():
    """A name that no other test has."""
    return f"t{os.getpid()}-{next(_numbers)}"


def fill(mq, topic, count, prefix="m"):
    """Send so many messages; their ids."""
    with mq.producer(topic) as out:
        return out.send_many([f"{prefix}{number}".encode() for number in range(count)])


def take(consumer, count, seconds=30):
    """The next so many messages."""
    end = time.monotonic() + seconds
    taken = []
    while len(taken) < count and time.monotonic() < end:
        message = consumer.receive(timeout=1)
        if message is not None:
            taken.append(message)
    assert len(taken) == count
    return taken


def free_ports(count):
    """Ports of loopback that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
