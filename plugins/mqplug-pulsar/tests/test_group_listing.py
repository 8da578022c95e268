"""Lists of groups, refusals while a group has members, modes, and added partitions."""

from __future__ import annotations

import pytest
from driver_faults import list_topics_as, shorten
from pulsar_driver import Seam, administer, fill, take

import mqplug
from mqplug import spi
from mqplug_pulsar import mqplug_move_group


def test_groups_are_listed_with_their_members(mq, name):
    """Groups are listed with their number of members, for one topic or for all."""
    other = f"{name}-other"
    mq.create_topic(name, partitions=2)
    mq.create_topic(other)
    mq.consumer(other, group=f"{name}-idle").close()
    with Seam(mq, name, name), Seam(mq, name, name), Seam(mq, name):
        assert administer(mq, spi.ListGroups(name)) == [spi.GroupInfo(name, 2)]
        everywhere = administer(mq, spi.ListGroups())
        assert spi.GroupInfo(name, 2) in everywhere
        assert spi.GroupInfo(f"{name}-idle", 0) in everywhere
    assert administer(mq, spi.ListGroups(name)) == [spi.GroupInfo(name, 0)]
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, spi.ListGroups(f"{name}-never-made"))


def test_a_topic_that_is_being_deleted_is_passed_over(mq, name, monkeypatch):
    """A partition that is listed without its topic counts as a topic by itself, or is left out if it is gone."""
    mq.create_topic(name)
    mq.consumer(name, group=f"{name}-idle").close()
    list_topics_as(monkeypatch, f"{name}-partition-0")
    assert administer(mq, spi.ListGroups()) == [spi.GroupInfo(f"{name}-idle", 0)]
    mq.delete_topic(name)
    assert administer(mq, spi.ListGroups()) == []


def test_groups_with_members_are_left_alone(mq, name):
    """A group with members can be neither moved nor deleted; without members it can be both."""
    mq.create_topic(name, partitions=2)
    fill(mq, name, 3)
    log = mq.partitions(name)[0]
    place = {log: spi.GroupPosition(mqplug.Position(log, (0, 0, -1)))}
    with Seam(mq, name, name):
        with pytest.raises(mqplug.ConsumerBusy):
            administer(mq, spi.DeleteGroup(name))
        with pytest.raises(mqplug.ConsumerBusy):
            mqplug_move_group(mq._connection, name, place, 20)
        assert administer(mq, spi.ListGroups(name)) == [spi.GroupInfo(name, 1)]
    mqplug_move_group(mq._connection, name, place, 20)
    administer(mq, spi.DeleteGroup(name))
    assert administer(mq, spi.ListGroups(name)) == []
    with pytest.raises(mqplug.GroupNotFound):
        administer(mq, spi.DeleteGroup(name))
    with mq.consumer(name, group=name, start=mqplug.LATEST) as consumer:
        sent = fill(mq, name, 1)
        assert [message.id for message in take(consumer, 1)] == sent


def test_without_the_admin_interface_it_is_said(mq, plain, topic):
    """Actions that need the admin interface raise ``Unsupported`` with ``admin_url`` in the message."""
    for action in (spi.ListGroups(topic), spi.DeleteGroup("g"), spi.AddPartitions(topic, 2)):
        with pytest.raises(mqplug.Unsupported, match="admin_url"):
            administer(plain, action)
    assert not plain.capabilities.add_partitions
    assert plain.capabilities.exclusive


PAIRS = [("exclusive", "exclusive"), ("exclusive", "ordered"), ("ordered", "exclusive")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("partitions", [1, pytest.param(3, marks=pytest.mark.night)])
def test_exclusive_is_alone(mq, plain, name, first, second, partitions):
    """A second consumer is refused if one of the two is exclusive; after the first closes, the group is free."""
    mq.create_topic(name, partitions=partitions)
    with Seam(mq, name, "g", mode=first) as member:
        with pytest.raises(mqplug.ConsumerBusy):
            Seam(plain, name, "g", mode=second)
        Seam(plain, name, "other", mode="exclusive").driver.close(10)
        sent = fill(mq, name, 1)[0]
        member.until(lambda: sent.log in member.got)
    Seam(plain, name, "g", mode=second).driver.close(10)


def test_an_exclusive_consumer_seeks_and_acks(mq, topic):
    """An exclusive consumer can seek, and its committed position is where the next member begins."""
    ids = fill(mq, topic, 5)
    log = ids[0].log
    with Seam(mq, topic, "g", mode="exclusive") as member:
        member.until(lambda: len(member.got.get(log, ())) == 5)
        member.driver.seek({log: mqplug.Position(log, ids[2].coordinates)}, 20)
        member.got.clear()
        member.until(lambda: len(member.got.get(log, ())) == 3)
        member.driver.commit({log: spi.GroupPosition(mqplug.Position(log, ids[4].coordinates))}, 20)
    with mq.consumer(topic, group="g") as successor:
        assert take(successor, 1)[0].id == ids[4]


def test_added_partitions_belong_to_live_members(mq, name, monkeypatch):
    """A live member reads added partitions from their beginning, and older ids remain valid."""
    shorten(monkeypatch, "partition check", 0.1)
    mq.create_topic(name)
    old = fill(mq, name, 3)
    with Seam(mq, name, "g", start=mqplug.LATEST) as member:
        member.join(1)
        info = administer(mq, spi.AddPartitions(name, 3))
        assert info.logs[0] is old[0].log
        with mq.producer(name) as out:
            sent = [out.send(b"%d" % partition, partition=partition) for partition in (1, 2)]
        member.join(3)
        member.until(lambda: len(member.got) == 2)
        assert member.got == {each.log: [b"%d" % each.log.partition] for each in sent}
        behind = {each.log: spi.GroupPosition(mq._connection.after(each)) for each in sent}
        member.driver.commit(behind, 20)
    assert mq.lag(name, group="g") == {0: 0, 1: 0, 2: 0}
    assert [message.id for message in mq.read(name, start=mqplug.after(old[0]), partitions=[0])] == old[1:]


def test_added_partitions_belong_to_groups_without_members(mq, name):
    """A group without members when partitions are added reads them from their beginning, whatever its ``start=``."""
    mq.create_topic(name)
    mq.consumer(name, group="g", start=mqplug.LATEST).close()
    administer(mq, spi.AddPartitions(name, 2))
    with mq.producer(name) as out:
        sent = out.send(b"x", partition=1)
    with mq.consumer(name, group="g", start=mqplug.LATEST) as consumer:
        assert take(consumer, 1)[0].id == sent


@pytest.mark.parametrize("count", [1, 2])
def test_partitions_only_grow(mq, name, count):
    """A partition count that is not larger than the current one is a ``ValueError`` and changes nothing."""
    mq.create_topic(name, partitions=2)
    with pytest.raises(ValueError, match="already has 2 partitions"):
        administer(mq, spi.AddPartitions(name, count))
    assert len(mq.partitions(name)) == 2
    with pytest.raises(mqplug.TopicNotFound):
        administer(mq, spi.AddPartitions(f"{name}-never-made", 3))


def test_a_topic_without_partitions_stays_so(mq, name, rest):
    """Partitions cannot be added to a topic without partitions: Pulsar does not support that."""
    rest.ask("PUT", rest.path(name))
    with pytest.raises(mqplug.Unsupported, match="without partitions"):
        administer(mq, spi.AddPartitions(name, 2))


def test_retention_is_told(mq, name, rest):
    """Retention covers acked and unacked messages, and is described as it was requested."""
    asked = spi.CreateTopic(name, retention=90, retention_bytes=5_000_000)
    for info in (administer(mq, asked), administer(mq, spi.DescribeTopic(name))):
        assert (info.retention, info.retention_bytes) == (90, 5_000_000)
    mq.create_topic(name, retention=90, retention_bytes=5_000_000, exist_ok=True)
    quota = rest.ask("GET", f"{rest.path(name)}/backlogQuotaMap")["destination_storage"]
    assert (quota["limitSize"], quota["policy"]) == (5_000_000, "consumer_backlog_eviction")
    assert rest.ask("GET", f"{rest.path(name)}/messageTTL") == 90
    info = administer(mq, spi.CreateTopic(f"{name}-usual"))
    assert (info.retention, info.retention_bytes) == (7 * 24 * 3600, None)
    info = administer(mq, spi.CreateTopic(f"{name}-whole", retention=60, retention_bytes=1 << 20))
    assert (info.retention, info.retention_bytes) == (60, 1 << 20)
    assert rest.ask("GET", f"{rest.path(name)}/retention") == {"retentionTimeInMinutes": 2, "retentionSizeInMB": 5}
    info = administer(mq, spi.CreateTopic(f"{name}-for-ever", retention=float("inf")))
    assert (info.retention, info.retention_bytes) == (float("inf"), None)
