"""Readers, which are consumers without a group."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from kafka_driver import Seam, fill, new_name, take
from kafka_faults import doubt_positions

import mqplug

pytestmark = pytest.mark.python


def test_a_position_beyond_the_end_waits_for_it(mq, topic):
    """After a seek beyond the end, the first delivered message is the one at that position."""
    fill(mq, topic, 3)
    high = mq.watermarks(topic)[0].high
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        reader.seek(mqplug.Position(high.log, (high.coordinates[0] + 2,)))
        assert reader.receive(timeout=1) is None
        sent = fill(mq, topic, 5, prefix="later")
        assert take(reader, 1)[0].id == sent[2]


def test_a_reader_that_retention_overtakes_is_told_where_to_go_on(mq, topic):
    """PositionLost names the first position that is left, and a seek to it continues there."""
    fill(mq, topic, 10)
    high = mq.watermarks(topic)[0].high
    with mq.consumer(topic, start=mqplug.EARLIEST, missing="error") as reader:
        take(reader, 10)
        reader.seek(mqplug.Position(high.log, (high.coordinates[0],)))
        fill(mq, topic, 5, prefix="gone")
        last = fill(mq, topic, 1, prefix="kept")
        mq.trim(topic, {0: mqplug.Position(high.log, last[0].coordinates)})
        with pytest.raises(mqplug.PositionLost) as caught:
            reader.seek(mqplug.Position(high.log, (2,)))
        reader.seek(caught.value.low)
        assert [m.id for m in take(reader, 1)] == last


def test_messages_that_had_to_wait_are_no_more_than_asked_for(mq, topic, monkeypatch):
    """Messages fetched for a large poll, but not confirmed in it, are delivered in the polls after it, all in order."""
    fill(mq, topic, 500)
    waits = iter([False] * 20)
    doubt_positions(monkeypatch, lambda: next(waits, True))
    with Seam(mq, topic) as seam:
        assert sum(seam.poll(most=500) for _ in range(20)) == 0
        polls = 0
        while sum(map(len, seam.got.values())) < 500:
            assert seam.poll(most=7) <= 7
            assert (polls := polls + 1) < 1000
    assert list(seam.got.values()) == [[b"m%d" % number for number in range(500)]]


def test_ctrl_c_ends_a_receive_promptly(mq, topic):
    """A blocked receive raises KeyboardInterrupt long before its timeout, and the reader remains usable."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        timer = threading.Timer(0.7, signal.raise_signal, [signal.SIGINT])
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            reader.receive(timeout=30)
        assert time.monotonic() - began < 20  # less than the timeout of 30 seconds
        sent = fill(mq, topic, 1)
        assert [m.id for m in take(reader, 1)] == sent


def test_many_partitions_and_topics_come_apart(mq):
    """A reader of several topics delivers the messages of each partition in order."""
    names = [new_name(), new_name()]
    for name in names:
        mq.create_topic(name, partitions=3)
        with mq.producer(name) as out:
            out.send_many([mqplug.Record(b"%d" % number, partition=number % 3) for number in range(300)])
    with mq.consumer(names, start=mqplug.EARLIEST) as reader:
        messages = take(reader, 600)
    for name in names:
        for partition in range(3):
            values = [m.value for m in messages if (m.topic, m.partition) == (name, partition)]
            assert values == [b"%d" % number for number in range(partition, 300, 3)]


@pytest.mark.night
@pytest.mark.disturbs
def test_the_same_after_a_restart_of_the_broker(kafka_server, mq, topic):
    """A reader that was idle while the broker restarted receives what is sent afterwards."""
    fill(mq, topic, 2)
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        take(reader, 2)
        kafka_server.kill()
        kafka_server.start()
        sent = fill(mq, topic, 2, prefix="after")
        assert [m.id for m in take(reader, 2)] == sent


@pytest.mark.disturbs
def test_closing_without_a_broker_is_bounded(kafka_server, mq, topic):
    """Readers, members and producers close in time while the broker is frozen."""
    fill(mq, topic, 3)
    reader = mq.consumer(topic, start=mqplug.EARLIEST)
    member = mq.consumer(topic, group=new_name())
    take(reader, 3)
    take(member, 3)
    out = mq.producer(topic)
    out.send(b"before")
    kafka_server.pause()
    try:
        handle = out.submit(b"in doubt")
        began = time.monotonic()
        reader.close(timeout=2)
        member.close(timeout=12)  # librdkafka waits for an answer to its leave request
        with pytest.raises(mqplug.CloseIncomplete):
            out.close(timeout=2)
        assert time.monotonic() - began < 60  # the broker is still frozen
        assert isinstance(handle.error, mqplug.OutcomeUnknown)
    finally:
        kafka_server.unpause()
