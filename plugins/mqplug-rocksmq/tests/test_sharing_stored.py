"""Stored state of members that share: acks, attempts and delays, and what survives their processes."""

from __future__ import annotations

import threading
from pathlib import Path
from time import monotonic

import pytest
from rocksmq_stores import eventually, line, new_log, nightly, python
from shared_members import GROUP, Sharer, Waiter, jobs, stored
from store_seam import HandOuts, Store, hand_out_notes

import mqplug
from mqplug import EARLIEST, Timeout
from mqplug.spi import Mode
from mqplug.spi.groups import Lease, Recalled

TOPICS = {"jobs": 1}


def test_acks_are_stored_exactly(mq: mqplug.Client, path: Path) -> None:
    """Acks in any order are stored; after reopening, only the other messages are delivered, as second attempts."""
    jobs(mq, 8)
    member = Sharer(mq)
    member.take(8)
    member.settle(5, 1, 0, back={3: 60.0})
    member.settle(6)
    assert stored(mq) == (2, [(5, 6)])
    member.close()
    mq.close()
    with mqplug.connect("rocksmq", path=str(path)) as opened:
        assert Sharer(opened).take(9) == [(at, 2) for at in (2, 4, 7)]  # 3 was delayed


@pytest.mark.usefixtures("mapped")
def test_giving_back_writes_next_to_nothing(mq: mqplug.Client) -> None:
    """A nack writes nothing to RocksDB, even with a delay, which goes to the journal."""
    jobs(mq, 3)
    member = Sharer(mq)
    member.take(3)
    store = member.driver._store
    before = store.engine.durability.changes
    member.settle(back={0: 0.0})
    assert store.engine.durability.changes == before
    member.settle(back={1: 5.0})
    assert store.engine.durability.changes == before
    member.settle(2)
    assert store.engine.durability.changes == before + 1


def test_what_could_not_be_stored_in_time_is_stored_with_the_next(mq: mqplug.Client) -> None:
    """A settlement that timed out took effect in memory; repeated, it is stored before it returns."""
    jobs(mq, 3)
    member = Sharer(mq)
    member.take(3)
    with member.driver._sharing._storing, pytest.raises(Timeout):
        member.settle(0, timeout=0.01)
    assert stored(mq) == (0, [])
    member.settle(0)
    assert stored(mq) == (1, [])


def test_many_settle_as_one(mq: mqplug.Client) -> None:
    """Settlements of several members while the disk is busy are stored by one write."""
    jobs(mq, 8)
    members = [Sharer(mq) for _ in range(8)]
    taken = [member.take(1)[0][0] for member in members]
    sharing, engine = members[0].driver._sharing, members[0].driver._store.engine
    threads = [threading.Thread(target=member.settle, args=(at,)) for member, at in zip(members, taken, strict=True)]
    before = engine.durability.changes
    with sharing._storing:
        for thread in threads:
            thread.start()
        eventually(lambda: sharing._changes == 8)
    for thread in threads:
        thread.join(20)
    assert engine.durability.changes == before + 1
    assert stored(mq) == (8, [])


CRASHES = """
import mqplug
mq = mqplug.connect("rocksmq", path=str(path))
mq.create_topic("jobs")
with mq.producer("jobs") as out:
    out.send_many([b"%d" % number for number in range(20)])
member = mq.consumer("jobs", group="workers", mode=sys.argv[2])
batch = member.receive_many(12, 10)
for message in list(batch)[::3]:
    member.ack(message)
member.nack(batch[1], delay=3600)
member.commit()
member.ack(batch[4])
print(len(batch), flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("mode", ["shared", *nightly("key_shared")])
def test_a_kill_gives_back_what_was_not_acked(path: Path, mode: Mode) -> None:
    """After kill -9, unacked messages come again with one more attempt, and acked ones do not."""
    with python(CRASHES, path, mode) as process:
        assert line(process) == "12"
        process.kill()
        process.wait(20)
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        came = Sharer(mq, mode).take(100, 1)
    maybe = [at for at, _ in came if at == 4]  # its ack was in progress
    gone = {0, 1, 3, 6, 9, 4}  # acked, but for 1, which is still delayed
    assert came == [(at, 2 if at < 12 else 1) for at in range(20) if at not in gone or at in maybe]


POISONED = """
import mqplug
retry = mqplug.Retry(3, delay=0)
with mqplug.connect("rocksmq", path=str(path), sync=sys.argv[2]) as mq:
    with mq.consumer("jobs", group="workers", mode="shared", retry=retry, dead_letter="jobs.dead") as jobs:
        while sum(mq.lag("jobs", group="workers").values()):
            job = jobs.receive(timeout=0.1)
            if job is not None and job.value == b"poison":
                print(job.attempt, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if job is not None:
                jobs.ack(job)
                jobs.commit()
print("done", flush=True)
"""


@pytest.mark.parametrize("sync", ["always", *nightly("os")])
def test_a_message_that_kills_its_process(path: Path, sync: str) -> None:
    """A message that kills its process counts an attempt each time, and becomes a dead letter; the others are done."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("jobs")
        mq.create_topic("jobs.dead")
        with mq.producer("jobs") as out:
            out.send_many([b"before", b"poison", b"after"])
    said = []
    for _ in range(4):
        with python(POISONED, path, sync) as process:
            said.append(line(process))
    assert said == ["1", "2", "3", "done"]
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        [dead] = mq.read("jobs.dead")
        assert (dead.value, dict(dead.headers)["mqplug-dead-attempts"]) == (b"poison", b"3")


def test_a_delay_outlives_the_store(path: Path) -> None:
    """A delayed message comes when it is due, in any later owner, with one more attempt."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("jobs")
        jobs(mq, 2)
        member = Sharer(mq)
        member.take(2)
        began = monotonic()
        member.settle(1, back={0: 1.5})
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        with Waiter(Sharer(mq)) as waiter:
            pass
        assert waiter.got == [(0, 2)]
        assert waiter.ended - began > 1.4


def test_notes_go_when_all_is_acked(mq: mqplug.Client) -> None:
    """Acked messages leave no note on disk; nor does a group that is moved or deleted."""
    jobs(mq, 30)
    member = Sharer(mq)
    store = member.driver._store
    for _ in range(3):
        member.take(5)
    member.settle(0, back={1: 0.0, 7: 60.0})
    member.take(1)
    assert hand_out_notes(store)
    member.settle(*range(15))
    assert len(hand_out_notes(store)) == 1  # of 7, which is delayed and no longer this member's
    member.driver.tend(0)
    member.driver.seek({member.log: mqplug.Position(member.log, (3,))}, 10)
    assert hand_out_notes(store) == []
    member.take(5)
    member.close()
    assert hand_out_notes(store)
    mq.reset_group(GROUP, "jobs", EARLIEST)
    assert hand_out_notes(store) == []
    member = Sharer(mq)
    assert member.take(2) == [(0, 1), (1, 1)]
    member.close()
    mq.delete_group(GROUP)
    assert hand_out_notes(store) == []


def test_nobody_is_waited_for_twice(store: Store) -> None:
    """A new owner reserves messages of members in other processes for a while, and then they are free."""
    log = new_log(store)
    HandOuts(store.journal, log, GROUP).take([Lease((0,), 2)], elsewhere=True)
    [fresh] = HandOuts(store.journal, log, GROUP).recall().values()
    assert fresh.attempts == 2
    assert 0 < fresh.delay <= 1
    store.journal.opened -= 1
    assert HandOuts(store.journal, log, GROUP).recall() == {(0,): Recalled(2, 0.0)}
