"""Pausing and resuming logs, by direct calls of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_driver import Seam, new_name

import mqplug
from mqplug_kafka._consume.fetcher import PausedPartitions

GROUPED = pytest.mark.parametrize("grouped", [False, True], ids=["reader", "member"])


@pytest.fixture
def pair(mq):
    """The name and both logs of a topic with 2000 messages in each of its two partitions."""
    name = new_name()
    mq.create_topic(name, partitions=2)
    for partition in (0, 1):
        put(mq, name, partition, range(2000))
    return name, *mq.partitions(name)


def put(mq, name, partition, numbers):
    """Send these numbers to a partition."""
    with mq.producer(name) as out:
        out.send_many([mqplug.Record(value, partition=partition) for value in values(numbers)])


def values(numbers):
    """Return the values for these numbers."""
    return [b"%d" % number for number in numbers]


@GROUPED
def test_a_paused_log_stands_still(mq, pair, grouped):
    """While one log is paused the other is read to its end; once resumed, the first continues in order."""
    name, zero, one = pair
    with Seam(mq, name, new_name() if grouped else None) as consumer:
        consumer.until(lambda: consumer.got.get(zero), 30)
        consumer.driver.pause([zero])
        stood = len(consumer.got[zero])
        consumer.until(lambda: consumer.got.get(one) == values(range(2000)))
        put(mq, name, 1, [2000])
        consumer.until(lambda: len(consumer.got[one]) == 2001)
        assert len(consumer.got[zero]) == stood
        consumer.driver.resume([zero])
        put(mq, name, 0, [2000])
        consumer.until(lambda: len(consumer.got[zero]) >= 2001)
        assert consumer.got == {zero: values(range(2001)), one: values(range(2001))}


@GROUPED
def test_a_seek_leaves_a_log_paused(mq, pair, grouped):
    """A seek on a paused log delivers nothing until the log is resumed, and then exactly from the new position."""
    name, zero, one = pair
    with Seam(mq, name, new_name() if grouped else None) as consumer:
        consumer.until(lambda: {zero, one} <= consumer.got.keys())
        consumer.driver.pause([zero])
        consumer.driver.seek({zero: mqplug.Position(zero, (1990,))}, 10)
        del consumer.got[zero]
        consumer.until(lambda: len(consumer.got[one]) == 2000)
        put(mq, name, 1, [2000])
        consumer.until(lambda: len(consumer.got[one]) == 2001)
        assert zero not in consumer.got
        consumer.driver.resume([zero])
        consumer.until(lambda: zero in consumer.got)
        consumer.until(lambda: len(consumer.got[zero]) >= 10)
        assert consumer.got[zero] == values(range(1990, 2000))


def test_the_end_of_a_rest_resumes_nothing_that_was_paused(mq, pair):
    """After a long handler, logs that the caller paused are still paused, and the others are read."""
    name, zero, one = pair
    with Seam(mq, name, new_name()) as member:
        member.join(2)
        member.driver.pause([zero])
        stood = len(member.got.get(zero, ()))
        member.driver.tend(0.1)
        member.driver.pause([one])
        for _ in range(5):
            member.driver.tend(0.1)
        member.driver.resume([one])
        for _ in range(5):
            member.driver.tend(0.1)
        member.until(lambda: len(member.got.get(one, ())) == 2000)
        assert len(member.got.get(zero, ())) == stood
        member.driver.tend(0.1)
        member.driver.resume([zero])
        member.until(lambda: len(member.got.get(zero, ())) == 2000)
        assert member.got == {zero: values(range(2000)), one: values(range(2000))}


def test_the_end_of_the_pause_of_all_leaves_single_pauses():
    """When the pause of all partitions ends, the client still does not fetch those that the caller paused."""
    held = zero, one = ("orders", 0), ("orders", 1)
    client = PausingClient()
    pauses = PausedPartitions(client)
    pauses.pause([zero])
    pauses.pause_all(held)
    assert client.paused == {zero, one}
    pauses.resume_all(held)
    assert client.paused == {zero}


class PausingClient:
    """A client that only keeps which partitions are paused."""

    def __init__(self):
        self.paused = set()

    def pause(self, names):
        self.paused |= set(names)

    def resume(self, names):
        self.paused -= set(names)


def test_partitions_that_come_back_are_not_paused(mq, pair):
    """A partition that another member had during a long handler is not paused when it comes back."""
    name, zero, one = pair
    group = new_name()
    with Seam(mq, name, group) as member:
        member.join(2)
        with Seam(mq, name, group) as other:
            while len(other.held) < 1:
                member.driver.tend(0.05)
                other.poll(0.05)
            other.got.clear()
            while len(member.held) > 1:
                member.driver.tend(0.05)
            member.driver.pause(list(member.held))
        member.join(2)
        member.driver.resume([zero, one])
        put(mq, name, 0, [2000])
        put(mq, name, 1, [2000])
        member.until(lambda: all(b"2000" in member.got.get(log, ()) for log in (zero, one)))


@GROUPED
def test_pausing_and_resuming_at_random_loses_and_repeats_nothing(mq, pair, grouped):
    """Random pauses and resumes deliver each message of both logs once and in order."""
    name, zero, one = pair
    with Seam(mq, name, new_name() if grouped else None, prefetch_bytes=64 << 10) as consumer:
        consumer.until(lambda: consumer.got)
        for turn in range(60):
            log = (zero, one)[turn % 2]
            consumer.driver.pause([log])
            consumer.poll(0.01, most=1 + turn * 7 % 50)
            if turn % 5 == 0 and grouped:
                consumer.driver.tend(0.01)
            consumer.driver.resume([log])
            consumer.poll(0.01, most=1 + turn * 3 % 40)
        consumer.until(lambda: sum(map(len, consumer.got.values())) >= 4000)
        assert consumer.got == {zero: values(range(2000)), one: values(range(2000))}


def test_what_is_paused_is_not_fetched(mq):
    """A paused log ten times as large as the prefetch limit does not fill memory."""
    name = new_name()
    mq.create_topic(name)
    with mq.producer(name) as out:
        out.send_many([bytes(100_000)] * 100)
    log = mq.partitions(name)[0]
    with Seam(mq, name, prefetch_bytes=1 << 20) as reader:
        reader.until(lambda: reader.got, 30)
        reader.driver.pause([log])
        before = resident()
        for _ in range(20):
            reader.poll(0.05)
        assert resident() - before < 5_000_000
        reader.driver.resume([log])
        reader.until(lambda: len(reader.got[log]) == 100)


def resident():
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
