"""Changes of a topic's retention or schema: only given values change, at once, and they survive a kill."""

from __future__ import annotations

import json
import math

import pytest
from pulsar_driver import wait_until

import mqplug

MIB = 1 << 20


@pytest.fixture(params=["partitioned", "plain"])
def kept(request, mq, name, rest):
    """A topic, with or without partitions, that retains one hour and 5 MB."""
    if request.param == "partitioned":
        mq.create_topic(name, partitions=3)
    else:
        rest.ask("PUT", rest.path(name))
    mq.alter_topic(name, retention=3600, retention_bytes=5_000_000)
    return name


def limits(info):
    """Return how long a topic retains messages, and how many bytes of them."""
    return info.retention, info.retention_bytes


def test_only_what_is_given_changes(pulsar_server, mq, kept, rest):
    """Each limit can be changed by itself, for acked and unacked messages, and other clients see the change at once."""
    before = mq.describe(kept)
    assert limits(before) == (3600, 5_000_000)
    with mqplug.connect(pulsar_server.url) as other:
        for given, expected in [
            ({"retention": 90}, (90, 5_000_000)),
            ({"retention_bytes": 50 * MIB}, (90, 50 * MIB)),
            ({"retention_bytes": 1_000_000}, (90, 1_000_000)),
            ({"retention": math.inf}, (math.inf, 1_000_000)),
            ({"retention": 7200, "retention_bytes": 3 * MIB}, (7200, 3 * MIB)),
        ]:
            changed = mq.alter_topic(kept, **given)
            assert (limits(changed), changed.logs) == (expected, before.logs)
            assert other.describe(kept) == changed
    assert rest.ask("GET", f"{rest.path(kept)}/messageTTL") == 7200
    quota = rest.ask("GET", f"{rest.path(kept)}/backlogQuotaMap")["destination_storage"]
    assert (quota["limitSize"], quota["policy"]) == (3 * MIB - 1, "consumer_backlog_eviction")


def test_a_topic_that_kept_nothing_that_was_acked(mq, name, rest):
    """A limit given to a topic that retained only unacked messages covers all messages; the other gets its default."""
    for number, (given, expected) in enumerate(
        [({"retention": 3600}, (3600, None)), ({"retention_bytes": 5 * MIB}, (7 * 24 * 3600, 5 * MIB))]
    ):
        topic = f"{name}-{number}"
        rest.ask("PUT", rest.path(topic))
        rest.ask("POST", f"{rest.path(topic)}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
        wait_until(lambda topic=topic: limits(mq.describe(topic)) == (None, None))
        assert limits(mq.alter_topic(topic, **given)) == expected


@pytest.mark.night
@pytest.mark.disturbs
@pytest.mark.timeout(300)
def test_a_change_outlives_a_killed_broker(pulsar_server, mq, name):
    """A change is in force after a broker that was killed right after the call has restarted."""
    mq.create_topic(name, partitions=2)
    changed = mq.alter_topic(name, retention=3600, retention_bytes=5_000_000)
    pulsar_server.kill()
    pulsar_server.start()
    with mqplug.connect(pulsar_server.url) as again:
        assert again.describe(name) == changed
        assert limits(changed) == (3600, 5_000_000)


def test_a_schema_is_replaced(mq, name, rest):
    """A compatible new schema is stored; an incompatible one is a ``ConfigError``, and nothing changes."""
    mq.create_topic(name, options={"schema": avro("id")})
    mq.alter_topic(name, options={"schema": avro("id", "note")})
    found = rest.ask("GET", f"schemas/public/default/{name}/schema")
    assert (found["version"], [each["name"] for each in json.loads(found["data"])["fields"]]) == (1, ["id", "note"])
    with pytest.raises(mqplug.ConfigError, match="refuses the schema"):
        mq.alter_topic(name, retention=60, options={"schema": {"type": "AVRO", "schema": '{"type": "long"}'}})
    assert mq.describe(name).retention == 7 * 24 * 3600


def avro(first, *optional):
    """Return a schema with one required string and optional strings."""
    fields = [{"name": first, "type": "string"}]
    fields += [{"name": each, "type": ["null", "string"], "default": None} for each in optional]
    return {"type": "AVRO", "schema": json.dumps({"type": "record", "name": "Order", "fields": fields})}


def test_what_is_no_option_is_refused_before_any_io(mq):
    """An unknown option or a malformed schema is a ``ConfigError`` before the topic is looked up."""
    for options in ({"ttl": 1}, {"schema": "{"}):
        with pytest.raises(mqplug.ConfigError):
            mq.alter_topic("never-made", options=options)
    with pytest.raises(mqplug.TopicNotFound):
        mq.alter_topic("never-made", retention=60)
