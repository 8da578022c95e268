"""Acks are durable: an unload or a kill right after a commit brings no acked message back."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from driver_faults import acks_of_position, note_acks
from pulsar_driver import ack_two_of_three, check_exactly, fill, prefetched, take, take_all, wait_until

import mqplug
from mqplug import EARLIEST

HOLES = 400


def ack_with_holes(mq, topic):
    """Send a batch, ack two of three messages, commit and close. Return the ids of the unacked messages."""
    fill(mq, topic, HOLES)
    with mq.consumer(topic, group="g") as member:
        left = ack_two_of_three(member, take_all(member, HOLES))
        member.commit()
    return left


def test_holes_outlive_an_unload(mq, topic, pulsar_server):
    """Single acks inside a batch survive an unload of the topic: only the unacked messages come again."""
    holes = ack_with_holes(mq, topic)
    pulsar_server.unload(topic)
    check_exactly(mq, topic, holes)


def test_stored_acks_are_told(mq, topic, pulsar_server):
    """The group's position reports acks inside a batch as ranges, also after an unload."""
    ids = fill(mq, topic, 6)
    with mq.consumer(topic, group="g") as member:
        taken = take(member, 6)
        for index in (0, 2, 3, 5):
            member.ack(taken[index])
    pulsar_server.unload(topic)
    stored = mq.positions(topic, group="g")[0]
    assert stored.position.coordinates == ids[1].coordinates
    assert stored.acked == ((ids[2].coordinates, ids[3].coordinates), (ids[5].coordinates, ids[5].coordinates))


@pytest.mark.night
def test_acks_of_several_members_outlive_an_unload(mq, topic, pulsar_server):
    """Acks of one member inside a batch are kept when the next member acks other messages of the batch."""
    ids = fill(mq, topic, 6)
    for index in (4, 1, 2):
        with mq.consumer(topic, group="g") as member:
            while (message := member.receive(20)).id != ids[index]:
                pass
            member.ack(message)
        pulsar_server.unload(topic)
    check_exactly(mq, topic, [ids[0], ids[3], ids[5]])


def test_an_unload_under_a_member(mq, topic, pulsar_server):
    """A member whose topic is unloaded gets no delivered message again, acked or not."""
    fill(mq, topic, 6)
    with mq.consumer(topic, group="g") as member:
        taken = take(member, 6)
        for index in (1, 4):
            member.ack(taken[index])
        member.commit()
        pulsar_server.unload(topic)
        fresh = fill(mq, topic, 1)
        assert [message.id for message in take(member, 1)] == fresh


def test_delivered_inside_a_batch_while_it_is_unloaded(mq, topic, pulsar_server):
    """Messages that a member had prefetched when its topic was unloaded come to the next member if they are unacked."""
    ids = fill(mq, topic, 10)
    with mq.consumer(topic, group="g") as member:
        for message in take(member, 5):
            member.ack(message)
    member = mq.consumer(topic, group="g")
    first = member.receive_many(1, timeout=0)  # opens it; on a busy machine, messages may have arrived by now
    wait_until(lambda: prefetched(mq, topic) >= 5)
    pulsar_server.unload(topic)
    wait_until(lambda: prefetched(mq, topic) >= 5)
    assert [message.id for message in [*first, *take(member, 5 - len(first))]] == ids[5:]
    member.close()
    check_exactly(mq, topic, ids[5:])


def test_a_group_moved_back_forgets_acks_inside_batches(mq, topic, pulsar_server):
    """After a seek back all messages come again, also those acked inside a batch, and again after an unload."""
    ids = fill(mq, topic, 6)
    with mq.consumer(topic, group="g") as member:
        member.ack(take(member, 4)[3])
        member.commit()
        member.seek(EARLIEST)
        assert [message.id for message in take(member, 6)] == ids
    pulsar_server.unload(topic)
    check_exactly(mq, topic, ids)


def test_moved_back_beside_a_member(mq, topic, pulsar_server):
    """A member that acked all messages gets them again when another member moves the group back and leaves."""
    ids = [fill(mq, topic, 1)[0] for _ in range(4)]
    with mq.consumer(topic, group="g") as first, mqplug.connect(pulsar_server.url) as other:
        for message in take(first, 4):
            first.ack(message)
        first.commit()
        second = other.consumer(topic, group="g")
        second.seek(EARLIEST)
        second.close()
        assert [message.id for message in take(first, 4)] == ids
        first.commit()
        fresh = fill(mq, topic, 1)
        message = take(first, 1)[0]
        assert message.id == fresh[0]
        first.ack(message)
    check_exactly(mq, topic, ids)


def test_members_that_note_acks_at_once(mq, topic):
    """Concurrent writes of acks inside batches of one partition all succeed."""
    fill(mq, topic, 1)
    mq.consumer(topic, group="g").close()
    log = mq.positions(topic, group="g")[0].position.log

    def note(entry):
        note_acks(mq, log, "g", {(2**40, entry): 1})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(note, range(12)))
    note(12)
    assert (2**40, 12) in acks_of_position(mq, log, "g")


@pytest.mark.night
def test_acks_from_before_a_move_are_not_kept(mq, topic):
    """Acks inside batches that were stored before the group was moved back are dropped when new ones are stored."""
    fill(mq, topic, 1)
    mq.consumer(topic, group="g").close()
    log = mq.positions(topic, group="g")[0].position.log
    note_acks(mq, log, "g", {(2**40, 0): 1}, (2**39, 0))
    note_acks(mq, log, "g", {(2**40, 1): 1})
    assert acks_of_position(mq, log, "g") == {(2**40, 1): 1}


KILLED = """
import os, signal, sys, mqplug
mq = mqplug.connect(sys.argv[1])
member = mq.consumer(sys.argv[2], group="g")
for _ in range(10):
    member.ack(member.receive(20))
member.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("admin", [True, pytest.param(False, marks=pytest.mark.night)])
def test_a_process_that_is_killed_after_its_commit(mq, topic, pulsar_server, admin):
    """Acked messages do not come again if the process is killed right after its commit returned."""
    for _ in range(10):
        fill(mq, topic, 1)
    url = pulsar_server.url if admin else pulsar_server.service_url + "?cluster=standalone"
    process = subprocess.run([sys.executable, "-c", KILLED, url, topic], timeout=100, check=False)
    assert process.returncode == -signal.SIGKILL
    check_exactly(mq, topic, [])
