"""Acks of members in shared modes, also inside batches, survive an unload."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from driver_faults import last_seek, note_shared_acks, noted_acks
from pulsar_driver import ONE_BATCH, ack_two_of_three, check_in_any_order, fill, take, take_all, take_between

import mqplug

BATCH = 60


def send_batches(mq, topic, count, key=None):
    """Send batches and return the ids of each."""
    sent = []
    with mq.producer(topic) as out:
        for _ in range(count):
            sent.append(list(out.send_many([mqplug.Record(b"%d" % n, key=key) for n in range(BATCH)])))
    return sent


def ack_with_holes(mq, topic):
    """Ack two of three messages of batches with two members, commit and close. Return the unacked ids."""
    send_batches(mq, topic, 6)
    with ExitStack() as opened:
        one, other = [opened.enter_context(mq.consumer(topic, group="g", mode="shared", **ONE_BATCH)) for _ in range(2)]
        taken = take_between((one, other), 6 * BATCH, BATCH)
        left = [each for member, messages in taken.items() for each in ack_two_of_three(member, messages)]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda member: member.commit(), taken))
    return left


def test_holes_of_two_members_outlive_an_unload(mq, topic, pulsar_server):
    """Messages that two members acked inside batches at the same time stay acked after an unload."""
    left = ack_with_holes(mq, topic)
    pulsar_server.unload(topic)
    check_in_any_order(mq, topic, left)


def test_nacks_and_acks_in_a_batch_outlive_an_unload(mq, topic, pulsar_server):
    """After an unload the nacked and unacked messages of a batch come again, and the acked ones do not."""
    [ids] = send_batches(mq, topic, 1)
    with mq.consumer(topic, group="g", mode="shared") as member:
        taken = take_all(member, BATCH)
        for message in taken[::3]:
            member.ack(message)
        for message in taken[1::3]:
            member.nack(message, delay=0)
        again = take_all(member, len(taken[1::3]))
        for message in again[::2]:
            member.ack(message)
        member.commit()
    pulsar_server.unload(topic)
    check_in_any_order(mq, topic, [*[each.id for each in again[1::2]], *ids[2::3]])


def test_key_shared_holes_outlive_an_unload(mq, topic, pulsar_server):
    """In key_shared mode, too, acks inside a batch survive an unload."""
    [ids] = send_batches(mq, topic, 1, key=b"a")
    with mq.consumer(topic, group="g", mode="key_shared") as member:
        for message in take_all(member, BATCH)[::2]:
            member.ack(message)
        member.commit()
    pulsar_server.unload(topic)
    check_in_any_order(mq, topic, ids[1::2], "key_shared")


def test_a_live_member_inherits_holes_after_an_unload(mq, topic, pulsar_server):
    """A connected member does not get messages after an unload that another member had acked inside a batch."""
    send_batches(mq, topic, 1)
    with mq.consumer(topic, group="g", mode="shared") as heir:
        with mq.consumer(topic, group="g", mode="shared") as member:
            taken = take_all(member, BATCH)
            assert heir.receive(0.2) is None
            for message in taken[::2]:
                member.ack(message)
            member.commit()
            pulsar_server.unload(topic)
        assert sorted(each.id for each in take_all(heir, BATCH // 2)) == [each.id for each in taken[1::2]]
        fresh = fill(mq, topic, 1)
        assert [each.id for each in take(heir, 1)] == fresh


@pytest.mark.parametrize("acked", [BATCH // 2, pytest.param(BATCH, marks=pytest.mark.night)])
def test_what_is_acked_after_an_unload_no_other_member_delivers(mq, topic, pulsar_server, acked):
    """A member that gets a batch after an unload leaves out messages that their former holder acks later."""
    send_batches(mq, topic, 1)
    with mq.consumer(topic, group="g", mode="shared") as one, mq.consumer(topic, group="g", mode="shared") as other:
        taken = take_all(one, BATCH)
        first = None
        while first is None:  # the broker may also give it to the same member again
            pulsar_server.unload(topic)
            first = other.receive(3)
        for message in taken[:acked]:
            one.ack(message)
        one.commit()
        left = {message.id for message in taken[acked:]} - {first.id}
        came: set[mqplug.MessageId] = set()
        while len(came) < len(left):
            more = other.receive_many(len(left) - len(came), timeout=3)
            came |= {message.id for message in more}
            if not more:  # the broker gave it back to the first member
                pulsar_server.unload(topic)
        assert came == left
        assert other.receive(0.3) is None


def test_the_rest_of_a_batch_makes_it_whole(mq, topic, pulsar_server):
    """A batch that several members acked in parts, with unloads in between, is acked as a whole."""
    [ids] = send_batches(mq, topic, 1)
    for part in (slice(0, 20), slice(20, 50), slice(50, 60)):
        with mq.consumer(topic, group="g", mode="shared") as member:
            taken = take_all(member, BATCH - part.start)
            assert [each.id for each in taken] == ids[part.start :]
            for message in taken[: part.stop - part.start]:
                member.ack(message)
        pulsar_server.unload(topic)
    check_in_any_order(mq, topic, [])
    assert mq.positions(topic, group="g")[0].position.coordinates > ids[-1].coordinates


def test_no_note_is_overwritten(mq, topic):
    """Acks that six threads note on one partition at once are all kept."""
    fill(mq, topic, 1)
    mq.consumer(topic, group="g", mode="shared").close()
    log = mq.positions(topic, group="g")[0].position.log

    def note(number):
        note_shared_acks(mq, log, "g", {(2**40, number): 1})

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(note, range(48)))
    assert len(noted_acks(mq, log, "g")) == 48


def test_acks_from_before_a_seek_are_not_noted(mq, topic):
    """Acks inside a batch are noted only if the group was not moved since the member got the messages."""
    fill(mq, topic, 2)
    with mq.consumer(topic, group="g", mode="shared") as member:
        log = mq.positions(topic, group="g")[0].position.log
        before = last_seek(mq, log, "g")
        member.seek(mqplug.EARLIEST)
    after = last_seek(mq, log, "g")
    for number, seek in enumerate((before, after)):
        note_shared_acks(mq, log, "g", {(2**40, number): 1}, seek)
    assert noted_acks(mq, log, "g") == {(2**40, 1): 1}


def test_acks_after_the_seek_of_another_member_come_too_late(mq, topic, pulsar_server):
    """Messages that a member acks after another one moved the group back are delivered again."""
    ids = [fill(mq, topic, 1)[0] for _ in range(3)]
    with mq.consumer(topic, group="g", mode="shared") as slow, mqplug.connect(pulsar_server.url) as client:
        taken = take(slow, 3)
        with client.consumer(topic, group="g", mode="shared") as other:
            other.seek(mqplug.EARLIEST)
        for message in taken:
            slow.ack(message)
        slow.commit()
        assert slow.late_acks == 3
    check_in_any_order(mq, topic, ids)
