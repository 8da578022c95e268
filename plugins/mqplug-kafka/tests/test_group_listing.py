"""Listing groups, refusals while they have members, added partitions and retention."""

from __future__ import annotations

import time

import pytest
from kafka_driver import Seam, administer, fill, new_name, take

import mqplug
from mqplug import spi
from mqplug_kafka import mqplug_move_group


def test_groups_are_listed_with_their_members(mq, topic):
    """A group is listed with its number of members, for each topic on which it has a position."""
    group, other = new_name(), new_name()
    mq.create_topic(other)
    mq.consumer(topic, group=f"{group}-idle").close()
    with Seam(mq, topic, group) as member:
        member.join(1)
        expected = {spi.GroupInfo(group, 1), spi.GroupInfo(f"{group}-idle", 0)}
        assert set(administer(mq, spi.ListGroups(topic))) == expected
        assert expected <= set(administer(mq, spi.ListGroups()))
    assert administer(mq, spi.ListGroups(other)) == []
    assert spi.GroupInfo(group, 0) in administer(mq, spi.ListGroups(topic))
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, spi.ListGroups(new_name()))


def test_groups_with_members_are_left_alone(mq, topic):
    """A group can be moved and deleted only while it has no members; a deleted group is not found."""
    group, log = new_name(), mq.partitions(topic)[0]
    place = {log: spi.GroupPosition(mqplug.Position(log, (0,)))}
    with Seam(mq, topic, group) as member:
        member.join(1)
        with pytest.raises(mqplug.ConsumerBusy):
            administer(mq, spi.DeleteGroup(group))
        with pytest.raises(mqplug.ConsumerBusy):
            mqplug_move_group(mq._connection, group, place, 10)
    mqplug_move_group(mq._connection, group, place, 10)
    administer(mq, spi.DeleteGroup(group))
    assert administer(mq, spi.ListGroups(topic)) == []
    with pytest.raises(mqplug.GroupNotFound):
        administer(mq, spi.DeleteGroup(group))


def test_a_deleted_group_begins_at_its_start(mq, topic):
    """A deleted group leaves no position: the next consumer begins at its own start."""
    group = new_name()
    mq.consumer(topic, group=group).close()
    fill(mq, topic, 3)
    administer(mq, spi.DeleteGroup(group))
    with mq.consumer(topic, group=group, start=mqplug.LATEST) as consumer:
        sent = fill(mq, topic, 1, prefix="later")
        assert [m.id for m in take(consumer, 1)] == sent


def test_added_partitions(mq):
    """After adding partitions, old ids stay valid, and a group without members reads new partitions from the start."""
    name, group = new_name(), new_name()
    mq.create_topic(name)
    old = fill(mq, name, 3)
    mq.consumer(name, group=group, start=mqplug.LATEST).close()
    info = administer(mq, spi.AddPartitions(name, 3))
    assert [log.partition for log in info.logs] == [0, 1, 2]
    assert info.logs[0] is old[0].log
    with mq.producer(name) as out:
        new = [out.send(b"x", partition=partition) for partition in (1, 2)]
    assert [m.id for m in mq.read(name, partitions=[0], start=mqplug.after(old[0]))] == old[1:]
    with mq.consumer(name, group=group, start=mqplug.LATEST) as consumer:
        assert {m.id for m in take(consumer, 2)} == set(new)


def test_a_live_producer_sends_to_added_partitions(mq, kafka_server):
    """A client sends to added partitions as soon as it knows of them, whichever client added them."""
    name = new_name()
    mq.create_topic(name)
    with mq.producer(name) as out, mqplug.connect(kafka_server.url) as other:
        out.send(b"before")
        administer(mq, spi.AddPartitions(name, 2))
        assert out.send(b"own", partition=1).log.partition == 1
        administer(other, spi.AddPartitions(name, 3))
        assert len(mq.partitions(name)) == 3
        with mq.producer(name) as later:
            assert later.send(b"foreign", partition=2).log.partition == 2


@pytest.mark.parametrize("count", [1, 2])
def test_partitions_only_grow(mq, count):
    """Asking for the present number of partitions, or fewer, raises ValueError and changes nothing."""
    name = new_name()
    mq.create_topic(name, partitions=2)
    with pytest.raises(ValueError, match="already has 2 partitions"):
        administer(mq, spi.AddPartitions(name, count))
    assert len(mq.partitions(name)) == 2
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, spi.AddPartitions(new_name(), 3))


def test_retention_is_told(mq):
    """A topic reports the retention it was created with, and the cluster's where none was given."""
    short, usual, compact = new_name(), new_name(), new_name()
    asked = spi.CreateTopic(short, retention=60, retention_bytes=1 << 30)
    for info in (administer(mq, asked), administer(mq, spi.DescribeTopic(short))):
        assert (info.retention, info.retention_bytes) == (60, 1 << 30)
    info = administer(mq, spi.CreateTopic(usual, retention=float("inf")))
    assert (info.retention, info.retention_bytes) == (float("inf"), None)
    compacted = administer(mq, spi.CreateTopic(compact, options={"cleanup.policy": "compact", "retention.ms": "1000"}))
    assert compacted.retention == float("inf")


def test_a_compacted_topic_that_also_deletes_tells_its_retention(mq):
    """A topic with the cleanup policy compact,delete reports its limits, because it removes older messages."""
    options = {"cleanup.policy": "compact,delete"}
    info = administer(mq, spi.CreateTopic(new_name(), retention=60, retention_bytes=1 << 30, options=options))
    assert (info.retention, info.retention_bytes) == (60, 1 << 30)


def test_retention_by_time(mq):
    """Retention by time removes old messages from a topic that is written to continuously."""
    name = new_name()
    administer(mq, spi.CreateTopic(name, retention=1))
    end = time.monotonic() + 30
    with mq.producer(name) as out:
        first = out.send(b"old")
        while not first < out.send(b"new") or not mq.watermarks(name)[0].low.coordinates > first.coordinates:
            assert time.monotonic() < end
            time.sleep(0.1)
        last = out.send(b"last")
    assert [m.id for m in mq.read(name)][-1] == last


def test_retention_by_size(mq):
    """A topic larger than its retention_bytes loses its oldest segments, and a position in them raises PositionLost."""
    name = new_name()
    administer(mq, spi.CreateTopic(name, retention_bytes=2 << 20))
    with mq.producer(name) as out:
        ids = out.send_many([bytes(100_000)] * 60)
    end = time.monotonic() + 30
    while not 20 <= mq.watermarks(name)[0].low.coordinates[0] <= 40:
        assert time.monotonic() < end
        time.sleep(0.05)
    with pytest.raises(mqplug.PositionLost):
        mq.consumer(name, start=mqplug.before(ids[0]))
