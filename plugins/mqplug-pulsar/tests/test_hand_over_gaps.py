"""Messages that come before earlier ones when a member takes a partition over."""

from __future__ import annotations

import pytest
from pulsar_driver import fill, take_all

import mqplug
from mqplug_pulsar._consume.partition_feed import PartitionFeed


@pytest.fixture
def single(pulsar_server):
    """A client that sends each message alone."""
    with mqplug.connect(f"{pulsar_server.url}&batching=none") as client:
        yield client


@pytest.fixture
def skipping(monkeypatch):
    """Make feeds drop the first three messages that they take, as if the broker had begun behind them."""
    left = {}
    take = PartitionFeed.take

    def dropping(feed, most):
        received = take(feed, most)
        while received is not None and left.setdefault(feed, 3):
            left[feed] -= 1
            received = received.only(range(1, len(received))) if len(received) > 1 else None
        return received

    monkeypatch.setattr(PartitionFeed, "take", dropping)


@pytest.mark.usefixtures("skipping")
def test_missing_messages_come_before_later_ones(single, topic):
    """A member that gets later messages first has the broker begin again, and delivers all in order."""
    ids = fill(single, topic, 10)
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 10)] == ids
        assert member.receive(0.3) is None


@pytest.mark.usefixtures("skipping")
def test_missing_messages_are_noticed_behind_acked_ones(single, topic):
    """The next member of a group notices, too, that messages are missing before the first ones that it gets."""
    ids = fill(single, topic, 10)
    with single.consumer(topic, group="g") as member:
        for message in take_all(member, 6):
            member.ack(message)
        member.commit()
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 4)] == ids[6:]


def test_acked_messages_between_others_are_no_gap(single, topic, monkeypatch):
    """A member that begins with holes in what comes requests nothing again."""
    ids = fill(single, topic, 20)
    with single.consumer(topic, group="g") as member:
        for message in take_all(member, 20)[1::2]:
            member.ack(message)
        member.commit()
    monkeypatch.delattr("pulsar.Consumer.redeliver_unacknowledged_messages")
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 10)] == ids[::2]
