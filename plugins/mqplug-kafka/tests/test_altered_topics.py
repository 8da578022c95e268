"""Altering topics: only the given settings change, and a change survives a kill of the broker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource
from kafka_driver import new_name

import mqplug


def own(mq, topic):
    """Return the settings that a topic does not inherit from the cluster."""
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
    config = mq.unwrap(AdminClient).describe_configs([wanted])[wanted].result(30).values()
    return {each.name: each.value for each in config if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def test_segments_follow_the_retention(mq):
    """Altering retention sets the segments that creation would; with long retention they are the cluster's again."""
    topic, alike = new_name(), new_name()
    mq.create_topic(topic)
    before = own(mq, topic)
    assert mq.alter_topic(topic, retention=3600, retention_bytes=10**8).retention_bytes == 10**8
    mq.create_topic(alike, retention=3600, retention_bytes=10**8)
    assert own(mq, topic) == own(mq, alike)
    assert (own(mq, topic)["segment.ms"], own(mq, topic)["segment.bytes"]) == ("3600000", "25000000")
    mq.alter_topic(topic, retention=timedelta(days=30))
    mq.alter_topic(topic, retention_bytes=10**12)
    kept = {"retention.ms": str(30 * 86_400_000), "retention.bytes": str(10**12)}
    assert own(mq, topic) == before | kept


def test_segments_that_an_operator_chose_stay(mq):
    """Altering retention keeps segment settings that an operator chose; only naming them changes them."""
    topic = new_name()
    mq.create_topic(topic, options={"segment.ms": 600_000})
    mq.alter_topic(topic, retention=3600)
    assert own(mq, topic)["segment.ms"] == "600000"
    mq.alter_topic(topic, retention=7200, options={"segment.ms": 700_000})
    assert own(mq, topic)["segment.ms"] == "700000"


def test_options_are_the_topics_configuration(mq):
    """Options are set by name, None restores the cluster's default, and the broker may spell a value differently."""
    topic = new_name()
    mq.create_topic(topic, retention=3600)
    kept = own(mq, topic)
    assert mq.alter_topic(topic, options={"preallocate": True, "min.insync.replicas": 1}) == mq.describe(topic)
    assert own(mq, topic) == kept | {"preallocate": "true", "min.insync.replicas": "1"}
    assert mq.describe(topic).options == {
        name: value for name, value in own(mq, topic).items() if not name.startswith("retention.")
    }
    mq.alter_topic(topic, options={"preallocate": None, "min.insync.replicas": None, "segment.ms": None})
    assert own(mq, topic) == {"retention.ms": "3600000"} | {key: kept[key] for key in kept.keys() - {"segment.ms"}}


@pytest.mark.parametrize(
    ("option", "said"), [("no.such.setting", "no.such.setting"), ("replication_factor", "cannot be altered")]
)
def test_what_cannot_be_altered_changes_nothing(mq, topic, option, said):
    """An unknown setting or the replication factor raises ConfigError, and nothing else is changed either."""
    before = own(mq, topic)
    with pytest.raises(mqplug.ConfigError, match=said):
        mq.alter_topic(topic, retention=3600, options={option: 1})
    assert own(mq, topic) == before


def test_a_broker_that_does_not_know_a_new_topic_yet_is_asked_again(mq, monkeypatch):
    """In a cluster the broker that gets a request may not know a new topic yet: ``alter_topic`` retries."""
    topic, asked = new_name(), []
    mq.create_topic(topic)
    ask = mq._connection.requests.ask

    def hears_late(what, *how):
        asked.append(what)
        if len(asked) % 2 == 1:
            raise mqplug.TopicNotFound("not heard of it")
        return ask(what, *how)

    monkeypatch.setattr(mq._connection.requests, "ask", hears_late)
    assert mq.alter_topic(topic, retention=3600).retention == 3600
    assert asked == [f"alter topic {topic!r}"] * 4


@pytest.mark.night
@pytest.mark.disturbs
def test_a_change_outlives_a_killed_broker(kafka_server, mq, topic):
    """A broker killed right after the call returned comes back with the change."""
    changed = mq.alter_topic(topic, retention=3600, retention_bytes=10**8)
    kafka_server.kill()
    kafka_server.start()
    with mqplug.connect(kafka_server.url) as again:
        assert again.describe(topic) == changed
