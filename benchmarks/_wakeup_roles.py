"""Processes of the wake-up contests: ``python -m benchmarks._wakeup_roles ROLE PATH``.

Each prints a line when it is ready. A message contains the time at which it was sent, by the clock that the processes
of a host share.
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
TIMESTAMP = Struct("<d")
PAUSE_BEFORE_SEND_S = 0.0005  # the receiver is blocked by then


def timestamp_now() -> bytes:
    """Return the current time, packed."""
    return TIMESTAMP.pack(time.perf_counter())


def seconds_since(sent: bytes) -> float:
    """Return the seconds since a packed time."""
    seconds: float = TIMESTAMP.unpack(sent)[0]
    return time.perf_counter() - seconds


def run_sender(path: str) -> None:
    """Send a message for each line of standard input, as a client of the process that owns the store."""
    with mqplug.connect("rocksmq", path=path, sync="os") as mq, mq.producer(TOPIC) as out:
        _on_demand(lambda: out.send(timestamp_now()))


def run_busy_owner(path: str) -> None:
    """Own the store, and keep the interpreter busy."""
    with mqplug.connect("rocksmq", path=path, sync="os") as mq:
        mq.create_topic(TOPIC)
        print("ready", flush=True)
        _keep_busy()


def run_bare_sender(path: str) -> None:
    """Send a time for each line of standard input over a bare socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.send(b"s")
        _on_demand(lambda: connection.sendall(timestamp_now()))


def run_relay(path: str) -> None:
    """Relay the bytes of one process to another: the minimum work of a server between them."""
    ends: dict[bytes, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while len(ends) < 2:
            connection, _ = listener.accept()
            ends[connection.recv(1)] = connection
    while sent := ends[b"s"].recv(TIMESTAMP.size):
        ends[b"r"].sendall(sent)


def run_busy_relay(path: str) -> None:
    """Relay from a thread, and keep the interpreter busy."""
    threading.Thread(target=run_relay, args=(path,), daemon=True).start()
    _keep_busy()


def _on_demand(do: Callable[[], object]) -> None:
    print("ready", flush=True)
    while sys.stdin.readline():
        time.sleep(PAUSE_BEFORE_SEND_S)
        do()


def _keep_busy() -> None:
    """Keep the interpreter busy until this process is killed."""
    while True:
        sum(number * number for number in range(10_000))


ROLES: dict[str, Callable[[str], None]] = {
    "send": run_sender,
    "own": run_busy_owner,
    "send-bare": run_bare_sender,
    "relay": run_relay,
    "busy-relay": run_busy_relay,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2])
