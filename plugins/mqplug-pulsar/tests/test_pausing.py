"""Paused logs at the driver's seam."""

from __future__ import annotations

import pytest
from pulsar_driver import Seam

import mqplug

pytestmark = pytest.mark.python

GROUPED = pytest.mark.parametrize("grouped", [False, True], ids=["reader", "member"])


@pytest.fixture
def pair(mq, name):
    """The name and the logs of a topic of two partitions with 2000 messages each."""
    mq.create_topic(name, partitions=2)
    for partition in (0, 1):
        put(mq, name, partition, range(2000))
    return name, *mq.partitions(name)


def put(mq, name, partition, numbers):
    """Send these numbers to a partition and return their ids."""
    with mq.producer(name) as out:
        return out.send_many([mqplug.Record(value, partition=partition) for value in values(numbers)])


def values(numbers):
    """Return the messages' values for these numbers."""
    return [b"%d" % number for number in numbers]


@GROUPED
def test_a_paused_log_stands_still(mq, pair, grouped):
    """While one log is paused the other is read to its end; once resumed, the first continues where it stopped."""
    name, zero, one = pair
    with Seam(mq, name, "g" if grouped else None) as consumer:
        while zero not in consumer.got:
            consumer.poll(most=100)
        consumer.driver.pause([zero])
        stood = len(consumer.got[zero])
        put(mq, name, 1, [2000])
        consumer.until(lambda: consumer.got.get(one) == values(range(2001)))
        assert len(consumer.got[zero]) == stood < 2000
        consumer.driver.resume([zero])
        put(mq, name, 0, [2000])
        consumer.until(lambda: len(consumer.got[zero]) >= 2001)
        assert consumer.got == {zero: values(range(2001)), one: values(range(2001))}


@GROUPED
def test_a_seek_leaves_a_log_paused(mq, name, grouped):
    """A paused log that is moved by a seek delivers nothing until it is resumed, and then from the new position."""
    mq.create_topic(name, partitions=2)
    ids = put(mq, name, 0, range(20))
    put(mq, name, 1, range(20))
    zero, one = mq.partitions(name)
    with Seam(mq, name, "g" if grouped else None) as consumer:
        consumer.until(lambda: {zero, one} <= consumer.got.keys())
        consumer.driver.pause([zero])
        consumer.driver.seek({zero: mqplug.Position(zero, ids[15].coordinates)}, 20)
        consumer.got.clear()
        put(mq, name, 1, [20])
        consumer.until(lambda: one in consumer.got)
        consumer.driver.tend(0.1)
        for _ in range(5):
            consumer.poll()
        assert zero not in consumer.got
        consumer.driver.resume([zero])
        consumer.until(lambda: zero in consumer.got)
        consumer.until(lambda: len(consumer.got[zero]) >= 5)
        assert consumer.got[zero] == values(range(15, 20))


@GROUPED
def test_pausing_and_resuming_at_random_loses_and_repeats_nothing(mq, pair, grouped):
    """Two logs that are paused and resumed in turn are delivered completely, once and in order."""
    name, zero, one = pair
    with Seam(mq, name, "g" if grouped else None, prefetch_bytes=1 << 20) as consumer:
        consumer.until(lambda: consumer.got)
        for turn in range(60):
            log = (zero, one)[turn % 2]
            consumer.driver.pause([log])
            consumer.poll(0.01, most=1 + turn * 7 % 50)
            consumer.driver.tend(0.01)
            consumer.driver.resume([log])
            consumer.poll(0.01, most=1 + turn * 3 % 40)
        consumer.until(lambda: sum(map(len, consumer.got.values())) >= 4000)
        assert consumer.got == {zero: values(range(2000)), one: values(range(2000))}


def test_what_is_paused_is_not_fetched_without_end(mq, connected, name, rest):
    """The broker sends a paused member only as many single messages as its queue holds."""
    mq.create_topic(name)
    put(connected(batching="none"), name, 0, range(2000))
    log = mq.partitions(name)[0]
    with Seam(mq, name, "g", prefetch_bytes=16 * 1024 * 100) as member:
        while log not in member.got:
            member.poll(most=10)
        member.driver.pause([log])
        sent = [fetched(rest, name)]

        def has_stopped():
            for _ in range(10):
                member.poll(0.05)
            sent.append(fetched(rest, name))
            return sent[-1] == sent[-2] >= 10

        member.until(has_stopped)
        assert sent[-1] < 500, sent
        member.driver.resume([log])
        member.until(lambda: len(member.got[log]) == 2000)


def fetched(rest, name):
    """Return how many messages the broker has sent to the member."""
    stats = rest.ask("GET", f"{rest.path(name)}-partition-0/stats")
    return stats["subscriptions"]["g"]["consumers"][0]["msgOutCounter"]
