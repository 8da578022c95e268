"""Messages that a member in a shared mode holds for longer than ``max_processing``."""

from __future__ import annotations

import threading

import pytest
from driver_faults import delay_settlements
from pulsar_driver import check_in_any_order, fill, take, wait_until

MOST_S = 0.5
MODES = ("shared", pytest.param("key_shared", marks=pytest.mark.night))


@pytest.fixture(params=MODES)
def mode(request):
    """A mode in which members share a log."""
    return request.param


def member(mq, topic, mode):
    """Return a member that may hold a message for half a second."""
    return mq.consumer(topic, group="g", mode=mode, max_processing=MOST_S)


def is_given_away(consumer):
    """Return whether this member's messages have gone back to the broker."""
    [log] = consumer._session.driver_session.driver._logs.values()
    return bool(log._leases._given_away)


@pytest.mark.night
def test_a_late_ack_of_what_nobody_took_is_stored(mq, topic, mode):
    """A late ack of a message that no other member took counts."""
    ids = fill(mq, topic, 3)
    with member(mq, topic, mode) as slow:
        taken = take(slow, 3)
        wait_until(lambda: is_given_away(slow))
        for message in taken[:2]:
            slow.ack(message)
        slow.commit()
        assert slow.late_acks == 0
    check_in_any_order(mq, topic, ids[2:], mode)


def test_what_was_acked_late_comes_again_after_a_seek(mq, topic):
    """A seek undoes a late ack that counted, like any other ack."""
    [only] = fill(mq, topic, 1)
    with member(mq, topic, "shared") as slow:
        [kept] = take(slow, 1)
        wait_until(lambda: is_given_away(slow))
        slow.ack(kept)
        slow.commit()
        slow.seek(only)
        assert [message.id for message in take(slow, 1)] == [only]


@pytest.mark.night
def test_a_late_ack_of_what_another_took_is_counted(mq, topic, mode):
    """A late ack of a message that another member holds has no effect except in ``late_acks``."""
    [only] = fill(mq, topic, 1)
    with member(mq, topic, mode) as slow, member(mq, topic, mode) as other:
        [kept] = take(slow, 1)
        [taken] = take(other, 1)
        assert (taken.id, taken.attempt) == (only, 2)
        slow.ack(kept)
        slow.commit()
        assert slow.late_acks == 1
        other.nack(taken, delay=0)
        [again] = take(other, 1)
        assert (again.id, again.attempt) == (only, 3)


@pytest.mark.night
def test_it_comes_again_as_another_attempt(mq, topic, mode):
    """A message whose lease ended comes again as the second attempt, even to the same member."""
    [only] = fill(mq, topic, 1)
    with member(mq, topic, mode) as slow:
        take(slow, 1)
        assert [(message.id, message.attempt) for message in take(slow, 1)] == [(only, 2)]


def test_the_clock_stops_at_the_ack(mq, topic, monkeypatch):
    """A timely ack counts however long the commit before it takes: no other member gets the message."""
    for _ in range(2):
        fill(mq, topic, 1)
    held = threading.Event()
    delay_settlements(monkeypatch, held)
    with member(mq, topic, "shared") as slow:
        first, second = take(slow, 2)
        slow.ack(first)
        commit = threading.Thread(target=slow.commit)
        commit.start()
        slow.ack(second)
        with member(mq, topic, "shared") as other:
            assert other.receive(4 * MOST_S + 2) is None
            held.set()
            commit.join()
            slow.commit()
            assert slow.late_acks == 0
            fresh = fill(mq, topic, 1)
            assert [message.id for message in take(other, 1)] == fresh
