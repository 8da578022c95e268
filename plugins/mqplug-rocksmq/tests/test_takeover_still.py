"""Suspended owners and members, which may be taken for dead; and owners that do not stay."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from owner_takeover import killed, owned_elsewhere, owns, take
from refused_openings import held
from rocksmq_stores import Member, eventually, freeze, line, nightly, python, serving
from store_seam import set_clock_of_searches

import mqplug
from mqplug import EARLIEST, ConnectError, OutcomeUnknown, Timeout

STANDS = """
with mqplug.connect("rocksmq", path=str(path)) as mq:
    lost = threading.Event()
    with mq.consumer("orders", group="g", mode=sys.argv[2], on_revoked=lambda logs: lost.set()) as member:
        print(*member.receive_many(4, 10).values, flush=True)
        while sys.argv[2] == "ordered" and not lost.is_set():
            member.receive(0.1)
        sys.stdin.readline()
        print(mq.health() or "goes on", flush=True)
"""


@pytest.mark.parametrize("mode", ["ordered", "shared"])
def test_a_member_that_stands_still(path: Path, mode: mqplug.spi.Mode) -> None:
    """A member of another process that is suspended loses its partitions after the session timeout, and is informed."""
    with mqplug.connect("rocksmq", path=str(path), session_timeout=3.0) as mq, mq.producer() as out:
        mq.create_topic("orders")
        out.send_many([mqplug.Record(b"%d" % each, topic="orders") for each in range(4)])
        with python(STANDS, path, mode) as stands:
            assert line(stands) == "b'0' b'1' b'2' b'3'"
            began = time.monotonic()
            freeze(stands)
            with mq.consumer("orders", group="g", mode=mode) as member:
                assert [message.value for message in take(member, 4, ack=True)] == [b"0", b"1", b"2", b"3"]
                assert time.monotonic() - began > 0.5  # its last contact may be some time ago
                stands.send_signal(signal.SIGCONT)
                stands.stdin.write("\n")  # type: ignore[union-attr]
                stands.stdin.flush()  # type: ignore[union-attr]
                assert line(stands) == "goes on"


def test_an_owner_that_stands_still(path: Path) -> None:
    """While the owner is suspended, calls end with ``Timeout``; when it resumes, so do they, and nothing is doubled."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"before")
        with mq.consumer("orders", start=EARLIEST) as reader:
            take(reader, 1)
            freeze(owner)
            try:
                with pytest.raises(Timeout):
                    mq.watermarks("orders", timeout=0.3)
                with pytest.raises(Timeout):
                    reader.seek(EARLIEST, timeout=0.3)
                with pytest.raises(OutcomeUnknown) as late:
                    out.send(b"while", timeout=0.3)
                with pytest.raises(Timeout):
                    mqplug.connect("rocksmq", path=str(path), timeout=0.5)
            finally:
                owner.send_signal(signal.SIGCONT)
            assert late.value.handle is not None
            late.value.handle.result(10)
            reader.seek(EARLIEST)
            assert [message.value for message in take(reader, 2)] == [b"before", b"while"]
        assert not owns(mq)


@pytest.mark.parametrize("group", ["g", *nightly(None)])
def test_an_owner_that_stands_still_and_dies(path: Path, group: str | None) -> None:
    """A consumer that waits for a suspended owner continues when that owner is killed."""
    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"before")
        with mq.consumer("orders", group=group, start=EARLIEST) as consumer:
            take(consumer, 1, ack=group is not None)
            freeze(owner)
            assert consumer.receive(0.3) is None
            killed(owner)
            out.send(b"after")
            assert take(consumer, 1)[0].value == b"after"


class Ahead:
    """A clock that can be moved ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.sleep = time.sleep
        set_clock_of_searches(monkeypatch, self)

    def monotonic(self) -> float:
        return time.monotonic() + self.seconds


MUTE = {"pid": 1, "socket": None}  # the content of an owner file whose owner serves no others


@pytest.mark.night
def test_owners_that_come_and_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member raises after ten seconds of searching for an owner, not because it saw three come and go."""
    ahead = Ahead(monkeypatch)

    def look(member: Member, times: int) -> None:
        for _ in range(times):
            ahead.seconds += 0.9
            assert member.poll() == 0

    with owned_elsewhere(path) as (owner, mq), mq.producer("orders") as out:
        out.send(b"x")
        member = Member(mq, "orders", "g")
        eventually(member.poll)
        killed(owner)
        for _ in range(3):
            with held(path, MUTE):
                look(member, 4)
            with serving(path):
                mq.watermarks("orders")
                member.poll()  # it sees that there is an owner, and may join it a little later
        with held(path, MUTE):
            look(member, 3)
            ahead.seconds += 60  # owners may come and go between two searches
            look(member, 1)
            with pytest.raises(ConnectError, match=r"no owner of the store was found in 1\d s"):
                look(member, 8)
        member.driver.close(1)
