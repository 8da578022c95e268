"""One owner after another is killed under many processes: nothing is lost, nothing is stored twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from rocksmq_stores import eventually, line, nightly, python, serving
from store_seam import read_owner

import mqplug

WORKER = """
import itertools
name = sys.argv[2]
say = lambda *words: print(*words, flush=True)
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    with mq.consumer("orders", group="g", mode=sys.argv[3]) as member:
        say("ready")
        for number in itertools.count():
            sent = out.send_many([mqplug.Record(b"%s %d" % (name.encode(), 10 * number + each), partition=each % 3)
                                  for each in range(10)])
            say("stored", *sent)
            batch = member.receive_many(50, 0.05)
            for message in batch:
                member.ack(message)
            try:
                member.commit()
            except (mqplug.NotAssigned, mqplug.ConnectError):  # too late after a takeover: these come again
                continue
            say("acked", *batch.ids)
"""


Said = dict[str, list[mqplug.MessageId]]


def listen(process: subprocess.Popen[str], said: Said) -> threading.Thread:
    """Read a worker's output to its end."""

    def run() -> None:
        assert process.stdout is not None
        for text in process.stdout:
            if text.endswith("\n") and text.split()[0] in {"stored", "acked"}:
                what, *ids = text.split()
                said[what] += map(mqplug.MessageId.parse, ids)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("mode", "kills"),
    [("ordered", 2), *nightly(("ordered", 5), ("shared", 5), ("key_shared", 5))],
)
def test_a_storm(path: Path, mode: mqplug.spi.Mode, kills: int) -> None:
    """The owner is killed several times while programs send, consume and commit.

    Acknowledged messages are there, once and in order. Committed messages do not come again; all others do.
    """
    everything: Said = defaultdict(list)
    with contextlib.ExitStack() as stack:
        stack.enter_context(created(path))
        workers: list[tuple[subprocess.Popen[str], Said, threading.Thread]] = []
        for number in range(3 + kills):
            worker = stack.enter_context(python(WORKER, path, f"w{number}", mode))
            assert line(worker) == "ready"
            said: Said = defaultdict(list)
            workers.append((worker, said, listen(worker, said)))
            if number >= 3:
                kill_owner(path, workers)
        for worker, _, thread in workers:
            worker.kill()
            thread.join(30)
    for _, said, _ in workers:
        for what, ids in said.items():
            everything[what] += ids
    check(path, everything, mode)


@contextlib.contextmanager
def created(path: Path) -> Iterator[None]:
    """A process that owns the store at first."""
    with serving(path) as server:
        with mqplug.connect("rocksmq", path=str(path)) as mq:
            mq.create_topic("orders", partitions=3)
        server.kill = lambda: None  # type: ignore[method-assign]
        server.terminate = lambda: None  # type: ignore[method-assign]
        server.wait = lambda timeout=None: 0  # type: ignore[method-assign]
        yield


def kill_owner(path: Path, workers: list[tuple[subprocess.Popen[str], Said, threading.Thread]]) -> None:
    """Kill the owner, whichever process it is, and check that the others continue."""
    alive = [(worker, said) for worker, said, _ in workers if worker.poll() is None]
    before = {worker.pid: len(said["stored"]) for worker, said in alive}
    eventually(lambda: all(len(said["stored"]) > before[worker.pid] for worker, said in alive), 60)
    owner = read_owner(path)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    left = [(worker, said, len(said["stored"])) for worker, said in alive if worker.pid != owner.pid]
    eventually(lambda: all(len(said["stored"]) > count for _, said, count in left), 60)


def check(path: Path, said: Said, mode: mqplug.spi.Mode) -> None:
    """Compare the stored messages with the reported ones."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        found = {message.id: message.value or b"" for message in mq.read("orders")}
        assert set(said["stored"]) <= set(found)
        assert len(set(found.values())) == len(found)
        assert len(set(said["stored"])) == len(said["stored"])
        in_order: dict[tuple[mqplug.Log, bytes], int] = {}
        for each, value in found.items():
            name, number = value.split()
            assert in_order.get((each.log, name), -1) < int(number)
            in_order[each.log, name] = int(number)
        with mq.consumer("orders", group="g", mode=mode) as member:
            left = set()
            while message := member.receive(1):
                left.add(message.id)
        assert not left & set(said["acked"])
        # Commits of a worker that was killed before it could report them: at most a batch each.
        assert len(set(found) - left - set(said["acked"])) <= 50 * 8
