"""Describes a group: the topics where it has positions or members, and its members as its coordinator knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import MemberDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import GroupDescription, GroupMember, GroupNotFound, Log
from mqplug.spi import Deadline
from mqplug_kafka._admin.topics import all_partitions
from mqplug_kafka._admin.transaction_marks import keeps_marks
from mqplug_kafka._cluster.connection import KafkaConnection

Partition = tuple[str, int]


def describe(connection: KafkaConnection, group: str, timeout: float) -> GroupDescription:
    """Return a group's topics and members; ``GroupNotFound`` if it has no position and no member.

    The members come from the coordinator, by a request of ``Coordinators``, and the positions from a consumer that asks
    for all partitions: the admin client's own calls for these can end the process.
    """
    if keeps_marks(group):
        raise _not_found(group)
    deadline = Deadline(timeout)
    described = connection.coordinators.describe([group], deadline.remaining())[group]
    members = described.members
    there = all_partitions(connection, deadline.remaining())
    topics = _topics_with_positions(connection, group, there, deadline)
    held = {each for member in members for each in _partitions(member)}.intersection(there)
    topics |= {topic for topic, _ in held}
    if not members and not topics:
        raise _not_found(group)
    # Of a classic group that rebalances, the coordinator does not tell what its members hold.
    told = described.state is ConsumerGroupState.STABLE or described.type is ConsumerGroupType.CONSUMER
    found = connection.describe({topic for topic, _ in held}, deadline.remaining())
    logs = {(log.topic, log.partition): log for topic in found.values() for log in topic.logs}
    return GroupDescription(
        group, tuple(sorted(topics)), tuple(_member(each, logs if told else None) for each in members)
    )


def _not_found(group: str) -> GroupNotFound:
    return GroupNotFound(f"there is no group {group!r}", fix="List the groups with client.groups()")


def _topics_with_positions(
    connection: KafkaConnection, group: str, partitions: Sequence[Partition], deadline: Deadline
) -> set[str]:
    if not partitions:
        return set()
    wanted = [TopicPartition(*each) for each in partitions]
    found = connection.stored_offsets(f"group {group!r}", group, wanted, deadline.remaining(), settled=False)
    return {each.topic for each in found if each.offset >= 0}


def _partitions(member: MemberDescription) -> list[Partition]:
    return [(each.topic, each.partition) for each in member.assignment.topic_partitions]


def _member(member: MemberDescription, logs: Mapping[Partition, Log] | None) -> GroupMember:
    """Return a member, with what it holds of these logs.

    The name is its id, which begins with that of its client in classic groups; elsewhere that is put in front.
    """
    named = member.group_instance_id or member.client_id
    name = member.member_id if member.member_id.startswith(named) else f"{named}-{member.member_id}"
    host = member.host.lstrip("/") or None
    if logs is None:
        return GroupMember(name, host)
    return GroupMember(name, host, tuple(logs[each] for each in sorted(_partitions(member)) if each in logs))
