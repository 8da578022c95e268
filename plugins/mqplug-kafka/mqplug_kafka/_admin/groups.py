"""Lists the groups of the cluster, describes the topics and members of a group, and deletes a group."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import MemberDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import GroupDescription, GroupMember, GroupNotFound, Log
from mqplug.spi import Deadline, GroupInfo
from mqplug_kafka._admin.topics import all_partitions
from mqplug_kafka._admin.transaction_marks import check_group_name, keeps_marks
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, typed_error

DEAD = "Dead"  # the listed state of groups that are not classic
CONCURRENT_GROUPS = 16  # how many groups to ask about at a time: each takes a connection


def groups(connection: KafkaConnection, topic: str | None, timeout: float) -> list[GroupInfo]:
    """Return the groups that have a position on a topic, or all groups of the cluster."""
    deadline = Deadline(timeout)
    members = _members(connection, deadline)
    members = {name: count for name, count in members.items() if not keeps_marks(name)}
    names = sorted(members) if topic is None else _on(connection, topic, sorted(members), deadline)
    return [GroupInfo(name, members[name]) for name in names]


def delete(connection: KafkaConnection, group: str, timeout: float) -> None:
    """Delete a group. Brokers refuse this while it has members."""
    check_group_name(group)
    connection.coordinators.ask(
        f"group {group!r}",
        lambda admin, seconds: admin.delete_consumer_groups([group], request_timeout=seconds)[group],
        timeout,
    )


def _members(connection: KafkaConnection, deadline: Deadline) -> dict[str, int]:
    """Return the number of members of each group, from the lists of all brokers.

    The lists have groups of the consumer protocol (KIP-848) without members, as if they were dead, so ask their
    coordinators. Do not ask through the connection's admin client: it can abort the process if a connection breaks at
    that moment (librdkafka issue 4605).
    """

    def ask(left: float) -> Future[list[Any]]:
        return connection.worker.run(lambda: _list_groups(connection.admin, left))

    requests = connection.requests
    listed = requests.insist(lambda left: requests.ask("list groups", ask, left, _complete), _left(deadline))
    listed = [each for each in listed if each.protocol_type in {"consumer", ""}]
    members = {each.id: len(each.members) for each in listed if each.state != DEAD}
    others = [each.id for each in listed if each.state == DEAD]
    for name, group in connection.coordinators.describe(others, _left(deadline)).items():
        if group.state is not ConsumerGroupState.DEAD:  # a dead one is a share group, or was just deleted
            members[name] = len(group.members)
    return members


def _list_groups(admin: Any, timeout: float) -> list[Any]:
    # Deprecated in favour of the call that can abort the process.
    warnings.filterwarnings("ignore", r"list_groups\(\) is deprecated", DeprecationWarning)
    return cast("list[Any]", admin.list_groups(timeout=timeout))


def _complete(listed: list[Any]) -> None:
    """Raise if a coordinator moves or still loads, because its list is then incomplete."""
    for each in listed:
        if each.error is not None and each.error.code() in TRANSIENT_CODES:
            raise typed_error(each.error, "list groups")


def _on(connection: KafkaConnection, topic: str, names: list[str], deadline: Deadline) -> list[str]:
    """Return the groups that have a position on a topic. Ask about each group, several at a time."""
    logs = connection.describe([topic], _left(deadline))[topic].logs
    wanted = [TopicPartition(log.topic, log.partition) for log in logs]
    found: list[str] = []
    for first in range(0, len(names), CONCURRENT_GROUPS):
        some = names[first : first + CONCURRENT_GROUPS]
        asked = [connection.group_offsets.ask(name, wanted, _left(deadline), settled=False) for name in some]
        for name, answer in zip(some, asked, strict=True):
            stored = connection.requests.wait(f"group {name!r}", answer, _left(deadline))
            found += [name] * any(each.offset >= 0 for each in stored)
    return found


def _left(deadline: Deadline) -> float:
    return max(0.01, deadline.remaining())


Partition = tuple[str, int]


def describe(connection: KafkaConnection, group: str, timeout: float) -> GroupDescription:
    """Return a group's topics and members. Raise ``GroupNotFound`` if it has no position and no member.

    The members come from the coordinator, through ``Coordinators``, and the positions from a consumer that asks for all
    partitions: the admin client's own calls can end the process.
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
    # While a classic group rebalances, the coordinator does not report its members' partitions.
    is_known = described.state is ConsumerGroupState.STABLE or described.type is ConsumerGroupType.CONSUMER
    found = connection.describe({topic for topic, _ in held}, deadline.remaining())
    logs = {(log.topic, log.partition): log for topic in found.values() for log in topic.logs}
    return GroupDescription(
        group, tuple(sorted(topics)), tuple(_member(each, logs if is_known else None) for each in members)
    )


def _not_found(group: str) -> GroupNotFound:
    return GroupNotFound(f"the group {group!r} does not exist", fix="List the groups with client.groups()")


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
    """Return a member, with the logs that it holds out of these.

    Its name is its id, which in classic groups begins with the client's id. Elsewhere the client's id is prepended.
    """
    named = member.group_instance_id or member.client_id
    name = member.member_id if member.member_id.startswith(named) else f"{named}-{member.member_id}"
    host = member.host.lstrip("/") or None
    if logs is None:
        return GroupMember(name, host)
    return GroupMember(name, host, tuple(logs[each] for each in sorted(_partitions(member)) if each in logs))
