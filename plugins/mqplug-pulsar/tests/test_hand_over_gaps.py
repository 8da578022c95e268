"""Messages that arrive before earlier ones when a member takes over a partition."""

from __future__ import annotations

import pulsar
import pytest
from driver_faults import UnansweredReads, change, shorten
from pulsar_driver import fill, take_all

import mqplug


@pytest.fixture
def single(pulsar_server):
    """A client that sends each message without a batch."""
    with mqplug.connect(f"{pulsar_server.url}&batching=none") as client:
        yield client


@pytest.fixture
def skipping(monkeypatch):
    """Make feeds drop the first three messages that they take, as if the broker had begun after them."""
    left = {}

    def dropping(take, feed, most):
        received = take(feed, most)
        while received is not None and left.setdefault(feed, 3):
            left[feed] -= 1
            received = received.only(range(1, len(received))) if len(received) > 1 else None
        return received

    change(monkeypatch, "take from a feed", dropping)


@pytest.mark.usefixtures("skipping")
def test_missing_messages_come_before_later_ones(single, topic):
    """A member that gets later messages first makes the broker send again, and delivers all messages in order."""
    ids = fill(single, topic, 10)
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 10)] == ids
        assert member.receive(0.3) is None


@pytest.mark.usefixtures("skipping")
def test_missing_messages_are_noticed_behind_acked_ones(single, topic):
    """A member whose group has acked messages detects that messages are missing before the first that it gets."""
    ids = fill(single, topic, 10)
    with single.consumer(topic, group="g") as member:
        for message in take_all(member, 6):
            member.ack(message)
        member.commit()
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 4)] == ids[6:]


def test_acked_messages_between_others_are_no_gap(single, topic, monkeypatch):
    """A member that begins after acks with holes requests no redelivery."""
    ids = fill(single, topic, 20)
    with single.consumer(topic, group="g") as member:
        for message in take_all(member, 20)[1::2]:
            member.ack(message)
        member.commit()
    monkeypatch.delattr("pulsar.Consumer.redeliver_unacknowledged_messages")
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 10)] == ids[::2]


@pytest.mark.usefixtures("skipping")
@pytest.mark.parametrize("error", [mqplug.Timeout("late"), mqplug.ConnectError("gone")], ids=["late", "gone"])
def test_messages_behind_a_gap_wait_for_the_broker(single, topic, monkeypatch, error):
    """While the broker does not answer whether messages are missing, later messages are not delivered."""
    ids = fill(single, topic, 10)
    reads = UnansweredReads(monkeypatch, error)
    with single.consumer(topic, group="g") as member:
        reads.allowed = False
        assert [message.id for message in take_all(member, 10)] == ids
        assert reads.refused
        assert member.receive(0.3) is None


@pytest.mark.usefixtures("skipping")
def test_missing_messages_are_requested_again(single, topic, monkeypatch):
    """Missing messages that do not come in time are requested again; later messages wait for them."""
    shorten(monkeypatch, "second request for missing messages", 0.1)
    redeliver, requests = pulsar.Consumer.redeliver_unacknowledged_messages, []

    def ignored_once(native):
        requests.append(native)
        if len(requests) > 1:
            redeliver(native)

    monkeypatch.setattr(pulsar.Consumer, "redeliver_unacknowledged_messages", ignored_once)
    ids = fill(single, topic, 10)
    with single.consumer(topic, group="g") as member:
        assert member.receive(0.5) is None
        ids = [*ids, *fill(single, topic, 1)]
        assert [message.id for message in take_all(member, 11)] == ids
    assert len(requests) >= 2


def test_messages_that_the_broker_does_not_have_hold_up_no_others(single, topic, monkeypatch):
    """Messages before the first one that the broker sends again are treated as lost, and later ones are delivered."""
    ids = fill(single, topic, 10)
    lost = {each.coordinates for each in ids[:3]}

    def without_lost(take, feed, most):
        received = take(feed, most)
        rows = [] if received is None else [n for n, at in enumerate(received.coordinates()) if at not in lost]
        return received.only(range(rows[0], len(received))) if rows else None

    change(monkeypatch, "take from a feed", without_lost)
    with single.consumer(topic, group="g") as member:
        assert [message.id for message in take_all(member, 7)] == ids[3:]


@pytest.mark.usefixtures("skipping")
def test_a_member_that_may_not_read_where_its_group_stands(single, topic, monkeypatch):
    """A member without the right to read its group's position delivers what it gets: it cannot detect gaps."""
    ids = fill(single, topic, 10)
    reads = UnansweredReads(monkeypatch, mqplug.AccessDenied("no"))
    with single.consumer(topic, group="g") as member:
        reads.allowed = False
        assert [message.id for message in take_all(member, 7)] == ids[3:]
        assert reads.refused
