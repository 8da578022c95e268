"""Stored positions with metadata from another program, or beyond the messages that still exist."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from kafka_driver import fill, new_name, take

HUGE = 9_000_000_000_000_000_000


def commit(server, group, topic, offset, metadata):
    """Store a position with metadata, as another client of the group would."""
    options = {"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False}
    other = confluent_kafka.Consumer(options)
    try:
        [stored] = other.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
        assert stored.error is None
    finally:
        other.close()


@pytest.mark.parametrize(
    ("metadata", "acked"),
    [
        (f"mqplug1:1+{HUGE}", [3, 4]),
        (f"mqplug1:0+1,1+1,{HUGE}+{HUGE}", [2, 4]),
        (f"mqplug1:3+{HUGE}", []),
        (f"mqplug1:{HUGE}+{HUGE},{HUGE}+{HUGE}", []),
        ("mqplug1:1+0", []),
        ("mqplug1:" + "9" * 4000 + "+1", []),
        ("mqplug1:" + ",".join(["1+1"] * 1000), [3]),
        ("another program's", []),
    ],
    ids=["over", "apart", "at-the-end", "beyond", "empty", "digits", "many", "foreign"],
)
def test_ranges_swallow_no_later_message(kafka_server, mq, topic, metadata, acked):
    """Ranges in the metadata ack nothing after the end of the log: each later message is delivered."""
    ids, group = fill(mq, topic, 5), new_name()
    commit(kafka_server, group, topic, 2, metadata)
    stored = mq.positions(topic, group=group)[0]
    known = {number for (first,), (last,) in stored.acked for number in range(first, last + 1)}
    assert known | set(range(2, stored.position.coordinates[0])) == set(acked)
    with mq.consumer(topic, group=group) as member:
        left = [each for number, each in enumerate(ids) if number >= 2 and number not in acked]
        assert [message.id for message in take(member, len(left))] == left
        later = fill(mq, topic, 20, "later")
        messages = take(member, 20)
        assert [message.id for message in messages] == later
        for message in messages[1:]:
            member.ack(message)
        member.commit()
    with mq.consumer(topic, group=group) as member:
        assert [message.id for message in take(member, len(left) + 1)] == [*left, later[0]]
    assert mq.lag(topic, group=group)[0] >= len(left)


def test_a_position_beyond_the_end_acks_nothing(kafka_server, mq, topic):
    """A group positioned after the end, as after a truncation, receives every message from its position onwards."""
    fill(mq, topic, 2)
    commit(kafka_server, group := new_name(), topic, 4, f"mqplug1:1+{HUGE}")
    with mq.consumer(topic, group=group) as member:
        assert member.receive(timeout=1) is None
        sent = fill(mq, topic, 5, "later")
        assert [message.id for message in take(member, 3)] == sent[2:]


def test_a_topic_that_was_made_again_has_no_acks_of_the_former(mq):
    """Acked ranges of a deleted topic do not apply to the topic that replaces it."""
    name, group = new_name(), new_name()
    mq.create_topic(name)
    fill(mq, name, 10)
    with mq.consumer(name, group=group) as member:
        for message in take(member, 10)[5:]:
            member.ack(message)
        member.commit()
    mq.delete_topic(name)
    mq.create_topic(name)
    with mq.consumer(name, group=group) as member:
        sent = fill(mq, name, 10)
        assert [message.id for message in take(member, 10)] == sent
