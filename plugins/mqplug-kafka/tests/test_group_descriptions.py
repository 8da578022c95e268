"""Group descriptions: topics, members and their partitions, in both protocols and for members of any program."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from kafka_driver import Seam, fill, new_name, since_4

import mqplug
from mqplug import EARLIEST, GroupDescription

PROTOCOLS = ["classic", pytest.param("consumer", marks=since_4)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_described(kafka_server, mq, protocol):
    """Members are described with distinct names, hosts and partitions; after they leave, the topics remain."""
    group, name, other = new_name(), new_name(), new_name()
    mq.create_topic(name, partitions=2)
    mq.create_topic(other)
    mq.reset_group(group, other, EARLIEST)
    with (
        mqplug.connect(kafka_server.url, group_protocol=protocol) as joining,
        Seam(joining, name, group) as one,
        Seam(joining, name, group) as two,
    ):
        one.until(lambda: two.poll() or len(one.held) == len(two.held) == 1)
        found, held = mq.describe_group(group), {tuple(one.held), tuple(two.held)}
        with pytest.raises(mqplug.ConsumerBusy, match="members: mqplug-") as caught:
            mq.delete_group(group)
    assert found.topics == tuple(sorted([name, other]))
    assert len({each.name for each in found.members}) == 2
    assert all(each.name.startswith("mqplug-") for each in found.members)
    assert {each.host for each in found.members} == {"127.0.0.1"}
    assert {each.logs for each in found.members} == held
    assert set(caught.value.members) == set(found.members)
    assert mq.describe_group(group) == GroupDescription(group, tuple(sorted([name, other])), ())


def test_a_rebalance_hides_who_holds_what(kafka_server, mq, topic):
    """While a joining member waits for the others, members are named and their partitions unknown rather than none."""
    group, (log,) = new_name(), mq.partitions(topic)
    with mqplug.connect(kafka_server.url, assignor="range") as joining, Seam(joining, topic, group) as one:
        one.join(1)
        with Seam(joining, topic, group) as two:
            two.until(lambda: len(mq.describe_group(group).members) == 2)
            assert {each.logs for each in mq.describe_group(group).members} == {None}
            held = {(log,), ()}
            one.until(lambda: two.poll() or {each.logs for each in mq.describe_group(group).members} == held)


def test_members_of_other_programs_are_described(kafka_server, mq, topic):
    """Another program's member is named by its client id, with its partition, even if it never committed."""
    group = new_name()
    fill(mq, topic, 1)
    theirs = Consumer({
        "bootstrap.servers": kafka_server.bootstrap, "group.id": group, "client.id": "billing-worker",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    theirs.subscribe([topic])
    try:
        assert theirs.poll(30).error() is None
        found = mq.describe_group(group)
    finally:
        theirs.close()
    (member,) = found.members
    assert member.name.startswith("billing-worker-")
    assert (found.topics, member.logs) == ((topic,), tuple(mq.partitions(topic)))
    with pytest.raises(mqplug.GroupNotFound):
        mq.describe_group(group)


def test_groups_that_keep_marks_are_not_described(mq, topic):
    """A transaction's mark group and an unknown group raise GroupNotFound, which suggests a similar name."""
    group, transaction = new_name(), new_name()
    mq.reset_group(group, topic, EARLIEST)
    with mq.transaction(transaction, topic, number=1) as step:
        step.send(b"x")
    with pytest.raises(mqplug.GroupNotFound):
        mq.describe_group(f"mqplug-transaction-{transaction}")
    with pytest.raises(mqplug.GroupNotFound, match=f"Did you mean {group!r}"):
        mq.describe_group(f"{group}x")


def test_a_deleted_topic_is_not_described(mq, topic):
    """A deleted topic disappears from the group's description, and a group without topics is not found."""
    group, other = new_name(), new_name()
    mq.create_topic(other)
    mq.reset_group(group, topic, EARLIEST)
    mq.reset_group(group, other, EARLIEST)
    mq.delete_topic(other)
    assert mq.describe_group(group).topics == (topic,)
    mq.delete_topic(topic)
    with pytest.raises(mqplug.GroupNotFound):
        mq.describe_group(group)
