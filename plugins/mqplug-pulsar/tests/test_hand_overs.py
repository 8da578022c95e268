"""Messages that are delivered twice when another member takes over a partition."""

from __future__ import annotations

import time

import pulsar
import pytest
from pulsar_driver import LIMIT_S, fill, wait_until

MESSAGES = 1500


@pytest.fixture
def native(pulsar_server):
    """A client of pulsar-client without mqplug."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null")
    client = pulsar.Client(pulsar_server.service_url, logger=logger)
    yield client
    client.close()


def send_singly(native, topic, partition, count):
    """Send messages without batches."""
    producer = native.create_producer(f"{topic}-partition-{partition}", max_pending_messages=count)
    for number in range(count):
        producer.send_async(b"%d" % number, None)
    producer.flush()


def active(rest, topic, group, partition):
    """Return the name of the active member of a partition."""
    stats = rest.ask("GET", f"{rest.path(topic)}-partition-{partition}/stats")
    return stats["subscriptions"][group]["activeConsumerName"]


@pytest.mark.parametrize("admin", [True, False])
def test_a_member_that_is_replaced_has_little_left(mq, plain, native, rest, name, admin):
    """A member that another one replaces delivers at most two hundred further messages."""
    client = mq if admin else plain
    mq.create_topic(name, partitions=2)
    send_singly(native, name, 1, MESSAGES)
    with client.consumer(name, group="g") as old:
        first = old.receive(LIMIT_S)
        assert first is not None
        before = active(rest, name, "g", 1)
        with client.consumer(name, group="g") as new:
            wait_until(lambda: active(rest, name, "g", 1) != before)
            places = []
            while len(places) < MESSAGES:
                message = new.receive(LIMIT_S)
                assert message is not None
                places.append(message.id)
            assert places[0] == first.id
            left = 0
            while old.receive(1) is not None:
                left += 1
        assert left <= 200


def test_members_that_join_take_no_more_than_they_must(mq, rest, name):
    """A member keeps its partitions while others join, as far as an even distribution allows."""
    mq.create_topic(name, partitions=3)
    for group in ("a", "b", "c"):
        members, holders = [], []
        for _ in range(3):
            members.append(mq.consumer(name, group=group))
            time.sleep(0.002)  # names contain milliseconds
            holders.append([active(rest, name, group, partition) for partition in range(3)])
        one, two, three = holders
        assert len(set(one)) == 1
        assert (two[0], two[2]) == (one[0], one[2])
        assert (three[0], three[1]) == (two[0], two[1])
        assert len(set(three)) == 3
        for member in members:
            member.close()


def test_one_partition_stays_where_it_is(mq, topic):
    """Members that join and leave beside the active member of a single partition cause no duplicate messages."""
    seen = []
    with mq.consumer(topic, group="g") as member:
        for _ in range(4):
            sent = fill(mq, topic, 50)
            with mq.consumer(topic, group="g") as other:
                for _ in sent:
                    message = member.receive(LIMIT_S)
                    assert message is not None
                    seen.append(message.id)
                    member.ack(message)
                assert other.receive(0.3) is None
        assert len(seen) == len(set(seen)) == 200
        last = fill(mq, topic, 1)
        message = member.receive(LIMIT_S)
        assert message is not None
        assert message.id == last[0]
