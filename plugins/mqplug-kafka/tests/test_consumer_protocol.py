"""Groups of the consumer protocol, KIP-848: members, refusals, and moving a classic group to it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient
from kafka_driver import OLD, administer, fill, new_name, since_4, take

import mqplug
from mqplug import spi


@pytest.fixture
def new_mq(kafka_server):
    """A client whose groups use the consumer protocol."""
    with mqplug.connect(kafka_server.url, group_protocol="consumer") as client:
        yield client


@since_4
def test_a_group_of_the_consumer_protocol(new_mq, mq, topic):
    """A group with a member counts it and can be neither moved nor deleted; closing the member leaves at once."""
    group, ids = new_name(), fill(mq, topic, 10)
    with new_mq.consumer(topic, group=group) as consumer:
        messages = take(consumer, 10)
        assert [message.id for message in messages] == ids
        for message in messages[:5]:
            consumer.ack(message)
        consumer.commit()
        described = mq.unwrap(AdminClient).describe_consumer_groups([group])[group].result(30)
        assert described.type is ConsumerGroupType.CONSUMER
        assert administer(mq, spi.ListGroups(topic)) == [spi.GroupInfo(group, 1)]
        with pytest.raises(mqplug.ConsumerBusy):
            mq.reset_group(group, topic, mqplug.EARLIEST)
        with pytest.raises(mqplug.ConsumerBusy):
            mq.delete_group(group)
    assert administer(mq, spi.ListGroups(topic)) == [spi.GroupInfo(group, 0)]
    with new_mq.consumer(topic, group=group) as consumer:
        assert [message.id for message in take(consumer, 5)] == ids[5:]
    mq.delete_group(group)
    assert administer(mq, spi.ListGroups(topic)) == []


@since_4
def test_a_transaction_stores_the_positions_of_its_group(new_mq, topic):
    """A transaction commits its member's acks, and the group continues after the acked messages."""
    group, name, ids = new_name(), new_name(), fill(new_mq, topic, 2)
    with new_mq.consumer(topic, group=group) as consumer:
        (message,) = take(consumer, 1)
        with new_mq.transaction(name, consumer=consumer) as step:
            step.send(b"out", topic=topic)
            consumer.ack(message)
    with new_mq.consumer(topic, group=group) as consumer:
        taken = take(consumer, 2)
    assert taken[0].id == ids[1]
    assert taken[1].value == b"out"


@since_4
def test_members_of_both_protocols_share_a_group(kafka_server, new_mq, topic):
    """With assignor="range", members of the new protocol replace classic ones, and each message is handled once."""
    group, handled, sent = new_name(), Counter(), []
    administer(new_mq, spi.AddPartitions(topic, 2))

    def work(members, until):
        end = time.monotonic() + 60
        while not until():
            assert time.monotonic() < end
            sent.extend(fill(new_mq, topic, 2, prefix=f"{len(sent)}-"))
            for member in members:
                with suppress(mqplug.Timeout):
                    for message in member.receive_many(100, timeout=0.05):
                        handled[message.id] += 1
                        member.ack(message)

    with mqplug.connect(kafka_server.url, assignor="range") as old_mq:
        old = old_mq.consumer(topic, group=group)
        work([old], lambda: len(old.assignment()) == 2)
        new = new_mq.consumer(topic, group=group)
        work([old, new], lambda: len(old.assignment()) == len(new.assignment()) == 1)
    work([new], lambda: len(new.assignment()) == 2)
    work([new], lambda: len(handled) >= len(sent) > 0)
    new.close()
    assert set(handled.values()) == {1}


@since_4
def test_brokers_without_the_consumer_protocol_are_named(disturbed_kafka):
    """A member gets a ConfigError that names the setting with which the brokers disable the protocol."""
    topic, group = new_name(), new_name()
    with mqplug.connect(disturbed_kafka.url, group_protocol="consumer") as client:
        client.create_topic(topic)
        consumer = client.consumer(topic, group=group)
        with pytest.raises(mqplug.ConfigError, match=r"group\.coordinator\.rebalance\.protocols"):
            consumer.receive(timeout=30)


@pytest.mark.skipif(not OLD, reason="MQPLUG_DEVBROKERS_KAFKA names no Kafka before 4.0")
def test_old_brokers_are_named(new_mq, topic):
    """A member that brokers before 4.0 never answer gets a ConfigError that names the needed version."""
    consumer = new_mq.consumer(topic, group=new_name())
    with pytest.raises(mqplug.ConfigError, match=r"Kafka 4\.0"):
        consumer.receive(timeout=60)
