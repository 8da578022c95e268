"""Topics: options, names, deletion, recreation, and use right after a change."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka_driver import fill, new_name, take
from kafka_faults import change

import mqplug

pytestmark = pytest.mark.python


def test_options_are_the_topics_configuration(mq):
    """Options other than replication_factor go to the broker; an unknown or impossible one raises ConfigError."""
    mq.create_topic(new_name(), options={"cleanup.policy": "compact", "replication_factor": 1})
    with pytest.raises(mqplug.ConfigError):
        mq.create_topic(new_name(), options={"no.such.setting": "1"})
    with pytest.raises(mqplug.ConfigError):
        mq.create_topic(new_name(), options={"replication_factor": 7})


def test_names_that_collide_in_metrics_are_refused(mq):
    """Creating ``a_b`` beside ``a.b`` raises InvalidName, because both have one name in Kafka's metrics."""
    base = new_name()
    mq.create_topic(f"{base}.x")
    with pytest.raises(mqplug.InvalidName):
        mq.create_topic(f"{base}_x")


def test_kafkas_own_topics_are_hidden(mq, topic):
    """Kafka's internal topics for offsets and transactions are not listed."""
    with mq.consumer(topic, group=new_name()) as consumer:
        consumer.receive(timeout=1)
    assert topic in mq.topics()
    assert not [name for name in mq.topics() if name.startswith("__")]


def test_a_deleted_topic_ends_its_reader(mq, topic):
    """A reader whose topic is deleted gets TopicNotFound instead of waiting forever."""
    fill(mq, topic, 3)
    with mq.consumer(topic, start=mqplug.EARLIEST) as reader:
        take(reader, 3)
        mq.delete_topic(topic)
        with pytest.raises(mqplug.TopicNotFound):
            reader.receive(timeout=30)


@pytest.mark.parametrize("grouped", [False, True], ids=["reader", "member"])
def test_a_remade_topic_is_never_read_by_the_old_reader(mq, topic, grouped):
    """A consumer of a deleted topic gets TopicNotFound, and never reads a new topic of the same name."""
    fill(mq, topic, 5)
    settings = {"group": new_name()} if grouped else {"start": mqplug.EARLIEST}
    with mq.consumer(topic, **settings) as consumer:
        take(consumer, 5)
        mq.delete_topic(topic)
        mq.create_topic(topic)
        fill(mq, topic, 10, prefix="new")
        with pytest.raises(mqplug.TopicNotFound, match="deleted"):
            consumer.receive(timeout=30)
    assert len(list(mq.read(topic))) == 10


def test_a_remade_topic_gives_ids_of_its_own(mq, topic):
    """After its topic was recreated, an open producer returns ids of the new topic; the old ids are invalid."""
    with mq.producer(topic) as out:
        old = out.send(b"old")
        mq.delete_topic(topic)
        mq.create_topic(topic)
        new = out.send(b"new")
    assert new.log is mq.partitions(topic)[0]
    assert old.log is not new.log
    with pytest.raises(mqplug.InvalidMessageId):
        mq.consumer(topic, start=mqplug.before(old))


def test_a_topic_remade_by_another_gives_ids_of_its_own(mq, topic, kafka_server):
    """After another client recreated its topic, an open producer returns ids of the new one, first send or not."""
    with mq.producer(topic) as idle, mq.producer(topic) as out, mqplug.connect(kafka_server.url) as other:
        out.send(b"old")
        other.delete_topic(topic)
        other.create_topic(topic)
        sent = [out.send(b"new"), idle.send(b"first")]
        assert [each.log for each in sent] == other.partitions(topic) * 2


def test_trim_beyond_the_end_empties_the_topic(mq, topic):
    """Trimming to a position after the end removes all messages."""
    fill(mq, topic, 5)
    high = mq.watermarks(topic)[0].high
    mq.trim(topic, {0: mqplug.Position(high.log, (99,))})
    assert mq.watermarks(topic)[0].low == high
    assert mq.bounds(topic)[0] == mqplug.Bounds(None, None)


def test_a_leader_that_does_not_know_the_new_topic_yet_is_asked_again(mq, monkeypatch):
    """In a cluster, the leader may not know a new topic yet: ``create_topic`` waits until it does."""
    asked = []

    def hears_late(look_up, *how):
        asked.append(how)
        if len(asked) == 1:
            raise mqplug.TopicNotFound("not heard of it")
        return look_up(*how)

    change(monkeypatch, "look at a new topic", hears_late)
    name = new_name()
    mq.create_topic(name, partitions=2)
    assert len(asked) == 2
    assert len(mq.partitions(name)) == 2


def test_topics_of_a_cluster_are_usable_at_once(kafka_cluster):
    """A new topic can be written, queried and deleted at once, whichever nodes lead it."""
    with mqplug.connect(kafka_cluster.url) as mq:
        for _ in range(10):
            name = new_name()
            mq.create_topic(name, partitions=3)
            with mq.producer(name) as out:
                out.send(b"x")
            assert sum(each.count for each in mq.watermarks(name).values()) == 1
            mq.delete_topic(name)


def test_every_broker_describes_a_change_at_once(kafka_cluster):
    """When ``alter_topic`` returns, every broker describes the topic with the change."""
    with mqplug.connect(kafka_cluster.url) as mq:
        topic, admin = new_name(), mq.unwrap(AdminClient)
        mq.create_topic(topic)
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
        nodes = [node.id for node in admin.describe_cluster().result(30).nodes]
        assert len(nodes) == 3
        for seconds in range(100, 120):
            assert mq.alter_topic(topic, retention=seconds).retention == seconds
            found = [admin.describe_configs([wanted], broker=node)[wanted].result(30) for node in nodes]
            assert [each["retention.ms"].value for each in found] == [f"{seconds}000"] * 3
