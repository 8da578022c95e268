"""Ctrl-C during receives: a program that continues afterwards loses no message."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pytest
from driver_faults import change
from pulsar_driver import fill

import mqplug

EACH = 200
INTERRUPTED = {2, 5, 11, 23, 47}


@pytest.fixture
def filled(mq, name):
    """A topic of two partitions with messages in each."""
    mq.create_topic(name, partitions=2)
    with mq.producer(name) as out:
        for partition in range(2):
            out.send_many([mqplug.Record(b"%d" % number, partition=partition) for number in range(EACH)])
    return name


@pytest.fixture(params=["before", "after"])
def interrupted(request, monkeypatch):
    """Ctrl-C at some takes, before or after messages have left the feed."""
    takes = count(1)

    def taking(take, feed, most):
        if request.param == "before" and next(takes) in INTERRUPTED:
            feed.interrupt()
            raise KeyboardInterrupt
        received = take(feed, min(most, 30))
        if request.param == "after" and next(takes) in INTERRUPTED:
            raise KeyboardInterrupt
        return received

    change(monkeypatch, "take from a feed", taking)


def receive_all(consumer, use=lambda message: None):
    """Receive all messages, continuing after each Ctrl-C. Return their numbers by partition."""
    found = {0: [], 1: []}
    for _ in range(200):
        with suppress(KeyboardInterrupt):
            for message in consumer.receive_many(20, timeout=20):
                use(message)
                found[message.id.log.partition].append(int(message.value))
        if sum(map(len, found.values())) >= 2 * EACH:
            break
    return found


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("options", [{"start": mqplug.EARLIEST}, {"group": "g"}], ids=["reader", "member"])
def test_nothing_is_lost_by_interrupts(mq, filled, options):
    """Readers and members that continue after Ctrl-C get every message once, in order."""
    with mq.consumer(filled, **options) as consumer:
        found = receive_all(consumer)
    assert found == {partition: list(range(EACH)) for partition in range(2)}


@pytest.mark.usefixtures("interrupted")
def test_acks_from_before_and_after_an_interrupt_are_stored(mq, filled):
    """Messages acked between interrupts do not come to the next member, although the interrupts reopened consumers."""
    with mq.consumer(filled, group="g") as member:
        receive_all(member, member.ack)
        member.commit()
    fill(mq, filled, 1)
    with mq.consumer(filled, group="g") as member:
        messages = [member.receive(20), member.receive(0.3)]
    assert [message and message.value for message in messages] == [b"0", None]
