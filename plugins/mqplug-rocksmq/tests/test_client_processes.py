"""What a process can do to a store that another process owns."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from owner_takeover import owns
from rocksmq_stores import eventually, line, new_log, nightly, python
from store_seam import Store

import mqplug
from mqplug import EARLIEST, LATEST, ConsumerBusy, TopicNotFound


@pytest.fixture
def mq(path: Path, owner: subprocess.Popen[str]) -> Iterator[mqplug.Client]:
    """A client of a store that another process owns, with the topic "orders"."""
    with mqplug.connect("rocksmq", path=str(path)) as client:
        client.create_topic("orders", partitions=2)
        yield client
        assert not owns(client)


def test_a_guest_sends_and_reads(mq: mqplug.Client) -> None:
    """A client process's messages have ids, keys, headers and times, and are read as they were sent."""
    records = [mqplug.Record(b"%d" % each, key=b"k", headers={"h": b"v"}, timestamp=each) for each in range(2500)]
    with mq.producer("orders") as out:
        sent = out.send_many(records)
        handles = [out.submit(None, partition=0) for _ in range(2500)]
        out.flush()
    found = list(mq.read("orders", partitions=[sent[0].log.partition]))
    ours = [message for message in found if message.value is not None]
    assert [message.id for message in ours] == sent
    assert [(each.key, each.headers, each.value) for each in ours[:2]] == [
        (b"k", (("h", b"v"),), b"0"),
        (b"k", (("h", b"v"),), b"1"),
    ]
    assert len({handle.result() for handle in handles}) == 2500


def test_a_guest_gets_as_many_as_it_asks_for(mq: mqplug.Client) -> None:
    """Several pages come as one batch if the caller asks for more than a page has, and otherwise one by one."""
    with mq.producer("orders") as out:
        for _ in range(5):
            sent = out.send_many([mqplug.Record(b"x", partition=0)] * 1000)
    with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
        assert [len(batch) for batch in orders.batches()] == [1000] * 5
        orders.seek(mqplug.EARLIEST)
        batch = orders.receive_many(4000, timeout=20)
        assert [each.coordinates for each in batch.ids] == [(offset,) for offset in range(4000)]
        assert orders.receive_many(4000, timeout=20).ids == sent


def test_a_guest_asks(mq: mqplug.Client) -> None:
    """Watermarks, bounds, look-ups by time, groups and lag are answered as in the owner's process."""
    with mq.producer("orders") as out:
        sent = out.send_many([mqplug.Record(b"x", partition=0, timestamp=1000 * each) for each in range(10)])
    mq.reset_group("g", "orders", sent[4])
    assert mq.topics() == ["orders"]
    assert mq.watermarks("orders")[0].count == 10
    assert mq.bounds("orders")[0] == mqplug.Bounds(sent[0], sent[-1])
    assert [message.id for message in mq.read("orders", start=mqplug.at_time(7000), partitions=[0])] == sent[7:]
    assert mq.lag("orders", group="g") == {0: 6, 1: 0}
    assert [(group.name, group.members) for group in mq.groups()] == [("g", 0)]
    low, high = mq.watermarks("orders")[0].low, mq.watermarks("orders")[0].high
    assert mq.resolve("orders", mqplug.at_time(6500), partitions=[0]) == {0: mqplug.Position(sent[7].log, (7,))}
    assert mq.resolve(["orders"], mqplug.last(10**6)) == {"orders": mq.resolve("orders", mqplug.EARLIEST)}
    assert (mq.distance(low, high), mq.advance(low, 10)) == (10, high)
    mq.trim("orders", {0: mqplug.Position(sent[5].log, (5,))})
    with pytest.raises(mqplug.PositionLost) as lost:
        mq.consumer("orders", start=mqplug.before(sent[2])).receive(5)
    assert lost.value.low == mqplug.Position(sent[5].log, (5,))
    mq.delete_group("g")
    mq.add_partitions("orders", 3)
    mq.delete_topic("orders")
    assert mq.topics() == []


def test_groups_of_all_processes(path: Path, mq: mqplug.Client) -> None:
    """A group's members in all processes are counted, and a group with members is not changed."""
    with python(MEMBER, path, "ordered") as other, mq.consumer("orders", group="g") as member:
        eventually(lambda: member.receive(0.05) or [group.members for group in mq.groups("orders")] == [2])
        with pytest.raises(ConsumerBusy):
            mq.delete_group("g")
        other.kill()
        eventually(lambda: member.receive(0.05) or [group.members for group in mq.groups("orders")] == [1])


def test_typed_errors_cross_the_socket(mq: mqplug.Client) -> None:
    """Errors of the owner are raised in the client process with the same type and fields."""
    with pytest.raises(TopicNotFound) as missing:
        mq.producer("nope")
    assert (missing.value.topic, missing.value.backend) == ("nope", "rocksmq")
    with pytest.raises(ValueError, match="already has 2 partitions"):
        mq._connection.administer(mqplug.spi.AddPartitions("orders", 1), 10)
    with mq.consumer("orders", start=EARLIEST) as reader:
        mq.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            reader.receive(5)


def test_a_guest_is_woken(path: Path, mq: mqplug.Client) -> None:
    """A reader at the end of a log is woken by sends of another process."""
    code = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.producer("orders") as out:
    sys.stdin.readline()
    print(out.send(b"x"), flush=True)
"""
    with python(code, path) as sender, mq.consumer("orders", start=LATEST) as reader:
        assert reader.receive(0.2) is None
        assert sender.stdin is not None
        sender.stdin.write("\n")
        sender.stdin.flush()
        message = reader.receive(20)
        assert str(message and message.id) == line(sender)


def test_a_guest_seeks_and_commits_in_its_callbacks(mq: mqplug.Client) -> None:
    """Calls from the callbacks of a member in another process are allowed, and have their effect."""
    with mq.producer("orders") as out:
        ids = out.send_many([mqplug.Record(b"%d" % each, partition=0) for each in range(4)])

    def on_assigned(logs: object) -> None:
        one.seek(ids[2])

    def on_revoked(logs: object) -> None:
        one.commit(timeout=10)

    one = mq.consumer("orders", group="g", on_assigned=on_assigned, on_revoked=on_revoked)
    with one:
        message = one.receive(10)
        assert message is not None
        assert message.id == ids[2]
        one.ack(message)
        with mq.consumer("orders", group="g") as other:
            eventually(lambda: one.receive(0.05) or len(other.assignment()) + len(one.assignment()) == 2)
            eventually(lambda: (one.receive(0.05), other.receive(0.05)) and len(other.assignment()) == 1)
    assert mq.positions("orders", group="g")[0].position == mqplug.Position(ids[0].log, (3,))


def test_large_messages(path: Path, owner: subprocess.Popen[str]) -> None:
    """Messages larger than any socket buffer cross it whole, in both directions."""
    large = [bytes([number]) * 3_000_000 for number in range(5)]
    with mqplug.connect("rocksmq", path=str(path), message_max_bytes=4_000_000) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send_many(large)
        assert [message.value for message in mq.read("orders")] == large


MEMBER = """
with mqplug.connect("rocksmq", path=str(path)) as mq, mq.consumer("orders", group="g", mode=sys.argv[2]) as member:
    for message in member:
        member.ack(message)
        member.commit()
        print(message.value.decode(), flush=True)
"""


@pytest.mark.parametrize("mode", ["ordered", "key_shared", *nightly("shared")])
def test_members_of_several_processes_share(path: Path, mq: mqplug.Client, mode: mqplug.spi.Mode) -> None:
    """Members in two processes share the work; when one is killed, the other gets all of it at once."""
    with python(MEMBER, path, mode) as other, mq.consumer("orders", group="g", mode=mode) as member:
        with mq.producer("orders") as out:
            taken = shared_out(out, member, other)
            other.send_signal(signal.SIGKILL)
            other.wait()
            out.send_many([mqplug.Record(b"last", partition=each, key=b"%d" % each) for each in range(2)])
        left = []
        while left.count(b"last") < 2:
            message = member.receive(10)
            assert message is not None
            left.append(message.value)
            member.ack(message)
    assert not taken & set(left)


def shared_out(out: mqplug.Producer, member: mqplug.Consumer, other: subprocess.Popen[str]) -> set[bytes]:
    """Send until both members have messages, and return the acked ones."""
    got: set[bytes] = set()
    theirs: set[bytes] = set()
    listener = threading.Thread(target=lambda: theirs.update(each.strip().encode() for each in other.stdout or ()))
    listener.start()
    for number in range(1000):
        out.send_many([mqplug.Record(b"%d.%d" % (number, each), partition=each, key=b"%d" % each) for each in range(2)])
        for message in member.receive_many(10, 0.05):
            got.add(message.value or b"")
            member.ack(message)
        member.commit()
        if got and theirs:
            break
    assert got
    assert theirs
    assert not got & theirs
    threading.Thread(target=listener.join, daemon=True).start()
    return got


def test_a_member_that_does_not_answer(path: Path) -> None:
    """A member that does not report its positions loses its partitions when others want them."""
    code = """
hold = threading.Event()
with mqplug.connect("rocksmq", path=str(path)) as mq:
    def on_revoked(logs):
        print("revoked", flush=True)
        hold.wait()
    with mq.consumer("orders", group="g", on_revoked=on_revoked) as member:
        while len(member.assignment()) < 2:
            member.receive(0.05)
        print("ready", flush=True)
        while True:
            member.receive(0.05)
"""
    with mqplug.connect("rocksmq", path=str(path), session_timeout=2.0) as mq:
        mq.create_topic("orders", partitions=2)
        with python(code, path) as stuck:
            assert line(stuck) == "ready"
            with mq.consumer("orders", group="g") as member:
                eventually(lambda: member.receive(0.05) or len(member.assignment()) == 2)
            assert line(stuck) == "revoked"


def test_nack_from_another_process(mq: mqplug.Client) -> None:
    """A message that a client process nacks is delivered to any member again, with its attempt counted."""
    with mq.producer("orders") as out:
        out.send(b"x")
    with mq.consumer("orders", group="g", mode="shared") as one:
        first = one.receive(10)
        assert first is not None
        one.nack(first, delay=0)
        again = one.receive(10)
        assert again is not None
        assert (again.id, again.attempt) == (first.id, 2)


def test_a_guest_can_ask_for_more_durability(path: Path, monkeypatch: pytest.MonkeyPatch, shared: Store) -> None:
    """With sync="always", a client process's send returns once it is on disk, even if the owner does not sync."""
    synced = []
    monkeypatch.setattr(shared, "sync", lambda: synced.append(True))
    code = """
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq, mq.producer("orders") as out:
    out.send(b"x")
"""
    new_log(shared)
    for sync, times in (("os", 0), ("always", 1)):
        with python(code, path, sync) as guest:
            assert guest.wait(30) == 0
        assert len(synced) == times


def test_a_forked_child_of_a_guest_is_no_member(path: Path, mq: mqplug.Client) -> None:
    """A member's connection ends with its process, even if a forked child of that process continues."""
    code = """
mq = mqplug.connect("rocksmq", path=str(path))
member = mq.consumer("orders", group="g", mode="exclusive")
if os.fork() == 0:
    print(os.getpid(), flush=True)
signal.pause()
"""
    with python(code, path) as process:
        child = int(line(process))
        try:
            with pytest.raises(ConsumerBusy):
                mq.consumer("orders", group="g", mode="exclusive")
            process.send_signal(signal.SIGKILL)
            process.wait()
            end = time.monotonic() + 20
            while True:
                try:
                    mq.consumer("orders", group="g", mode="exclusive").close()
                    break
                except ConsumerBusy:  # the owner reads the end of the connection in another thread
                    assert time.monotonic() < end
                    time.sleep(0.01)
        finally:
            os.kill(child, signal.SIGKILL)
