"""Helpers for owner processes that are killed or stopped."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rocksmq_stores import line, python
from store_seam import StoreConnection

import mqplug

HOLDER = """
mq = mqplug.connect("rocksmq", path=str(path))
print("ready", flush=True)
sys.stdin.readline()
mq.close()
print("closed", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def owned_elsewhere(path: Path) -> Iterator[tuple[subprocess.Popen[str], mqplug.Client]]:
    """Another process that owns a store with the topic "orders", and a client in this process."""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders")
            yield owner, mq


def killed(owner: subprocess.Popen[str]) -> None:
    """Killed."""
    owner.kill()
    owner.wait()


def closed(owner: subprocess.Popen[str]) -> None:
    """Closed in order, by a process that continues to run."""
    assert owner.stdin is not None
    owner.stdin.write("\n")
    owner.stdin.flush()
    assert line(owner) == "closed"


def owns(mq: mqplug.Client) -> bool:
    """Return whether the client's process has become the owner."""
    return isinstance(mq._connection.access, StoreConnection)


def take(consumer: mqplug.Consumer, count: int, *, ack: bool = False) -> list[mqplug.Message]:
    """Receive exactly this many messages."""
    taken = []
    while len(taken) < count:
        message = consumer.receive(25)  # less than the session timeout of 30 seconds
        assert message is not None, f"{len(taken)} of {count} came"
        taken.append(message)
        if ack:
            consumer.ack(message)
    return taken
