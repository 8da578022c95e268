"""The process that owns a store is ended, killed and suspended while it sends, reads, acks and seeks."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksmq_stores import nightly, python

import mqplug

PROGRAM = """
import itertools, mqplug
say = lambda what, *ids: print(what, *ids, flush=True)
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq:
    mq.create_topic("orders")
    with (
        mq.producer("orders") as out, mq.consumer("orders", group="g") as member,
        mq.consumer("orders", start=mqplug.EARLIEST) as reader, mq.consumer("orders", group="s") as seeker,
    ):
        for number in itertools.count():
            if ending.is_set():
                break
            sent = out.send_many([b"%d" % (10 * number + each) for each in range(10)])
            say("stored", *sent)
            say("read", *reader.receive_many(100, 5).ids)
            batch = member.receive_many(100, 5)
            for message in batch:
                if message.id.coordinates[0] % 7:
                    member.ack(message)
            member.commit()
            say("acked", *(each for each in batch.ids if each.coordinates[0] % 7))
            seeker.seek(sent[5])
            say("sought", sent[5])
            assert seeker.receive(5).id == sent[5]
say("end")
"""

Said = dict[str, list[mqplug.MessageId]]


def listen(process: subprocess.Popen[str], said: Said, enough: threading.Event) -> None:
    """Read the program's output to its end."""
    assert process.stdout is not None
    for line in process.stdout:
        if not line.endswith("\n"):
            return  # killed in the middle of a line
        what, *ids = line.split()
        said[what] += map(mqplug.MessageId.parse, ids)
        if len(said["sought"]) >= 20:
            enough.set()


def ended(process: subprocess.Popen[str]) -> None:
    """Ended in order."""
    process.terminate()


def killed(process: subprocess.Popen[str]) -> None:
    """Killed."""
    process.kill()


def frozen(process: subprocess.Popen[str]) -> None:
    """Suspended for a while, resumed, and later killed."""
    process.send_signal(signal.SIGSTOP)
    threading.Event().wait(1)
    process.send_signal(signal.SIGCONT)
    threading.Event().wait(0.5)
    process.kill()


@pytest.mark.parametrize(
    ("disturb", "sync"),
    [
        *((ended, "interval"), (killed, "always"), (frozen, "os")),
        *nightly((ended, "always"), (ended, "os"), (killed, "interval"), (killed, "os")),
        *nightly((frozen, "always"), (frozen, "interval")),
    ],
)
def test_all_goes_on(path: Path, disturb: Callable[[subprocess.Popen[str]], None], sync: str) -> None:
    """Stored messages are there once and in order, permanently acked ones do not come again, and a seek holds."""
    said: Said = defaultdict(list)
    enough = threading.Event()
    with python(PROGRAM, path, sync) as process:
        listener = threading.Thread(target=listen, args=(process, said, enough))
        listener.start()
        assert enough.wait(30)
        disturb(process)
        listener.join(30)
        assert process.wait(30) in {0, -signal.SIGKILL}
    with mqplug.connect("rocksmq", path=str(path), sync=sync) as mq:
        found = list(mq.read("orders"))
        ids = [message.id for message in found]
        assert ids[: len(said["stored"])] == said["stored"]
        assert [message.value for message in found] == [b"%d" % number for number in range(len(found))]
        assert said["read"] == ids[: len(said["read"])]
        acked = set(said["acked"])
        with mq.consumer("orders", group="g") as member:
            came = [member.receive(5) for _ in range(len(ids) - len(acked) - unsure(said, ids))]
            assert not acked & {message.id for message in came if message is not None}
        with mq.consumer("orders", group="s") as seeker:
            first = seeker.receive(5)
            assert first is not None
            assert first.id >= said["sought"][-1]


def unsure(said: Said, ids: list[mqplug.MessageId]) -> int:
    """Return how many messages may be acked without a report: all after the last reported one."""
    return sum(each > max(said["acked"]) for each in ids)
