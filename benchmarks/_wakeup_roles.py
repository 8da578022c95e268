"""Processes of the wake-up contests: ``python -m benchmarks._wakeup_roles ROLE PATH``. Each says when it is ready.

What is sent is the time at which it was sent, on the clock that all processes of a host share.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from struct import Struct

import mqplug

TOPIC = "wakeups"
TIME = Struct("<d")
PAUSE = 0.0005  # seconds: until whoever waits for the next one is asleep


def stamp() -> bytes:
    """The time now."""
    return TIME.pack(time.perf_counter())


def since(sent: bytes) -> float:
    """How many seconds ago that was."""
    seconds: float = TIME.unpack(sent)[0]
    return time.perf_counter() - seconds


def send(path: str) -> None:
    """A guest sends a message for each line that it reads."""
    with mqplug.connect("rocksmq", path=path, sync="os") as mq, mq.producer(TOPIC) as out:
        _on_demand(lambda: out.send(stamp()))


def own(path: str) -> None:
    """Own the store, and compute."""
    with mqplug.connect("rocksmq", path=path, sync="os") as mq:
        mq.create_topic(TOPIC)
        print("ready", flush=True)
        _compute()


def send_bare(path: str) -> None:
    """The same over a bare socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.send(b"s")
        _on_demand(lambda: connection.sendall(stamp()))


def relay(path: str) -> None:
    """Hand what one process writes to another: the least that a server between them does."""
    ends: dict[bytes, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while len(ends) < 2:
            connection, _ = listener.accept()
            ends[connection.recv(1)] = connection
    while sent := ends[b"s"].recv(TIME.size):
        ends[b"r"].sendall(sent)


def busy_relay(path: str) -> None:
    """The same from a thread of a process that computes."""
    threading.Thread(target=relay, args=(path,), daemon=True).start()
    _compute()


def _on_demand(do: Callable[[], object]) -> None:
    print("ready", flush=True)
    while sys.stdin.readline():
        time.sleep(PAUSE)
        do()


def _compute() -> None:
    """As a program does that is busy with Python; until it is killed."""
    while True:
        sum(number * number for number in range(10_000))


ROLES: dict[str, Callable[[str], None]] = {
    "send": send,
    "own": own,
    "send-bare": send_bare,
    "relay": relay,
    "busy-relay": busy_relay,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2])
