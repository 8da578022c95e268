"""Messages that the broker sends again to the member that already has them."""

from __future__ import annotations

import pytest
from driver_faults import UnansweredReads
from pulsar_driver import fill, prefetched, take, take_all, wait_until

import mqplug

COPIES = 350


@pytest.mark.parametrize(
    "error",
    [mqplug.TopicNotFound("not served yet"), pytest.param(mqplug.Timeout("late"), marks=pytest.mark.night)],
    ids=["not-served", "late"],
)
def test_copies_of_committed_messages(mq, topic, pulsar_server, monkeypatch, error):
    """Copies that came before a commit are not delivered after it, even while reads of the group's acks fail."""
    reads = UnansweredReads(monkeypatch, error)
    with mq.consumer(topic, group="g") as member:
        fill(mq, topic, COPIES)
        taken = take_all(member, COPIES)
        pulsar_server.unload(topic)
        wait_until(lambda: prefetched(mq, topic) >= COPIES)
        for message in taken:
            member.ack(message)
        member.commit()
        reads.allowed = False
        assert member.receive(1.5) is None
        assert reads.refused
        reads.allowed = True
        fresh = fill(mq, topic, 1)
        assert [message.id for message in take(member, 1)] == fresh
        assert member.receive(0) is None


def test_copies_of_unacked_messages(mq, topic, pulsar_server):
    """After a group is moved back under a member, all messages after the new position come, despite many copies."""
    ids = fill(mq, topic, COPIES)
    with mq.consumer(topic, group="g") as member, mqplug.connect(pulsar_server.url) as other:
        for message in take_all(member, COPIES):
            member.ack(message)
        member.commit()
        with other.consumer(topic, group="g") as second:
            second.seek(mqplug.before(ids[10]))
        assert [message.id for message in take_all(member, COPIES - 10)] == ids[10:]
