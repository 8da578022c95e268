"""Lists, describes and deletes groups, and reads the state of their members, through the admin interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import mqplug
from mqplug import GroupDescription, GroupMember, Log
from mqplug.spi import Deadline, GroupInfo
from mqplug_pulsar._admin import topics
from mqplug_pulsar._cluster.admin_interface import AdminRefused, error_from_refusal, group_path, topic_path
from mqplug_pulsar._cluster.connection import PROBE_NAME, PulsarConnection

T = TypeVar("T")

Statistics = Mapping[str, Any]
"""The broker's report on a topic, a subscription or a consumer."""

MembersByGroup = dict[str, set[str]]
"""The names of the members of each group."""


def list_groups(connection: PulsarConnection, topic: str | None, timeout: float) -> list[GroupInfo]:
    """Return the groups of a topic, or of all topics of the namespace."""
    found: MembersByGroup = {}
    for members in _by_topic(connection, topic, Deadline(timeout)).values():
        for group, names in members.items():
            found.setdefault(group, set()).update(names)
    return [GroupInfo(group, len(names)) for group, names in sorted(found.items())]


def delete_group(connection: PulsarConnection, group: str, timeout: float) -> None:
    """Delete a group on all topics of the namespace. Brokers refuse this while it has members."""
    deadline = Deadline(timeout)
    members_of = {
        name: members[group] for name, members in _by_topic(connection, None, deadline).items() if group in members
    }
    if not members_of:
        raise mqplug.GroupNotFound(f"no topic of the namespace has the group {group!r}")
    if any(members_of.values()):
        raise _busy(group)
    logs = [log for name in members_of for log in connection.describe(name, deadline.remaining()).logs]
    connection.calls.each(
        {log: partial(_delete, connection, log, group, deadline) for log in logs}, deadline.remaining()
    )


def _by_topic(connection: PulsarConnection, topic: str | None, deadline: Deadline) -> dict[str, MembersByGroup]:
    connection.required_admin("groups", "listing and deleting groups")
    if topic is not None:
        return {topic: _members(connection, topic, deadline)}
    return on_each_topic(connection, lambda name: _members(connection, name, deadline), deadline)


def on_each_topic(connection: PulsarConnection, ask: Callable[[str], T], deadline: Deadline) -> dict[str, T]:
    """Return the answer about each topic of the namespace, asked concurrently. Skip topics that no longer exist."""

    def ask_if_there(topic: str) -> list[T]:
        try:
            return [ask(topic)]
        except mqplug.TopicNotFound:
            return []

    names = topics.names(connection, deadline.remaining())
    found = connection.calls.each({name: partial(ask_if_there, name) for name in names}, deadline.remaining())
    return {name: answer for name, answers in found.items() for answer in answers}


def _members(connection: PulsarConnection, topic: str, deadline: Deadline) -> MembersByGroup:
    """Return the members of each durable subscription of a topic. A member has one name on all partitions."""
    found: MembersByGroup = {}
    for stats in partition_statistics(connection, topic, deadline).values():
        for group, each in stats["subscriptions"].items():
            if is_group(group, each):
                found.setdefault(group, set()).update(member_name(one) for one in each["consumers"])
    return found


def is_group(name: str, subscription: Statistics) -> bool:
    """Return whether a subscription is a group: a durable one that this plugin did not make for itself."""
    return bool(subscription["isDurable"]) and not name.startswith(PROBE_NAME)


def member_name(consumer: Statistics) -> str:
    """Return the name of a member, which is the same on all partitions."""
    return str(consumer["consumerName"] or consumer["address"])


def partition_statistics(connection: PulsarConnection, topic: str, deadline: Deadline) -> dict[str, Statistics]:
    """Return the statistics of each partition, by its Pulsar topic."""
    admin = connection.required_admin("groups", "listing groups")
    full = connection.names.full(topic)
    path = topic_path(full)
    try:
        parts = admin.get(f"{path}/partitioned-stats?perPartition=true", _left(deadline))
        return dict(parts["partitions"])
    except AdminRefused as error:
        # The second status answers for a single partition, which is listed by itself while its topic is being deleted.
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
            raise error_from_refusal(error, topic) from error
    try:
        return {full: admin.get(f"{path}/stats", _left(deadline))}
    except AdminRefused as error:
        raise error_from_refusal(error, topic) from error


def _delete(connection: PulsarConnection, log: mqplug.Log, group: str, deadline: Deadline) -> None:
    path = group_path(connection.native_topic(log), group)
    try:
        connection.required_admin("groups", "deleting groups").delete(path, _left(deadline))
    except AdminRefused as error:
        if error.status == HTTPStatus.PRECONDITION_FAILED:
            raise _busy(group) from error
        if error.status != HTTPStatus.NOT_FOUND:  # it is not on every partition
            raise error_from_refusal(error, log.topic) from error


def _busy(group: str) -> mqplug.ConsumerBusy:
    return mqplug.ConsumerBusy(f"the group {group!r} has members", fix="Close its consumers first")


def _left(deadline: Deadline) -> float:
    return max(0.01, deadline.remaining())


SINGLE_ACTIVE = {"Failover", "Exclusive"}  # the types of subscriptions whose messages go to one consumer

Subscriptions = Mapping[Log, Statistics]
"""The broker's report on a group, for each log that has it."""


def describe_group(connection: PulsarConnection, group: str, timeout: float) -> GroupDescription:
    """Return the group's topics in the namespace, and its members. Raise ``GroupNotFound`` if no topic has it."""
    connection.required_admin("groups", "describing groups")
    deadline = Deadline(timeout)
    by_topic = on_each_topic(connection, lambda topic: _subscriptions_of(connection, topic, group, deadline), deadline)
    found = {log: each for logs in by_topic.values() for log, each in logs.items()}
    if not found:
        raise mqplug.GroupNotFound(f"no topic of the namespace has the group {group!r}")
    return GroupDescription(group, tuple(sorted({log.topic for log in found})), tuple(_described_members(found)))


def _subscriptions_of(connection: PulsarConnection, topic: str, group: str, deadline: Deadline) -> Subscriptions:
    statistics = partition_statistics(connection, topic, deadline)
    there = {name: each["subscriptions"].get(group) for name, each in statistics.items()}
    if not any(each is not None and is_group(group, each) for each in there.values()):
        return {}
    logs = connection.describe(topic, max(0.01, deadline.remaining())).logs
    found = {log: there.get(connection.native_topic(log)) for log in logs}
    return {log: each for log, each in found.items() if each is not None}


def _described_members(subscriptions: Subscriptions) -> Iterable[GroupMember]:
    hosts: dict[str, str | None] = {}
    held: dict[str, set[Log]] = {}
    for log, subscription in subscriptions.items():
        for consumer in subscription["consumers"]:
            name = member_name(consumer)
            hosts[name] = _host(consumer)
            mine = held.setdefault(name, set())  # a member may have several consumers on a log
            if subscription["type"] not in SINGLE_ACTIVE or name == subscription.get("activeConsumerName"):
                mine.add(log)
    for name, logs in sorted(held.items()):
        yield GroupMember(name, hosts[name], tuple(sorted(logs, key=lambda log: (log.topic, log.partition))))


def _host(consumer: Statistics) -> str | None:
    """Return the host in an address of Java's form ``/10.0.0.1:40000``."""
    address = str(consumer.get("address") or "").rpartition("/")[2]
    return address.rpartition(":")[0].strip("[]") or None


FREE_TIMEOUT_S = 2.0


def is_free(connection: PulsarConnection, log: Log, group: str, member: str, deadline: Deadline) -> bool:
    """Return whether no other member holds messages of a log; False if the broker does not answer."""
    there = _subscription(connection, log, group, deadline.remaining(FREE_TIMEOUT_S))
    members = () if there is None else there.get("consumers", ())
    return there is not None and not any(
        each["unackedMessages"] for each in members if each["consumerName"] != member
    )  # fmt: skip


def may_be_stuck(connection: PulsarConnection, log: Log, group: str, timeout: float) -> bool:
    """Return whether a log has messages that no member holds, and no key waits for acks; True without an answer."""
    there = _subscription(connection, log, group, timeout)
    if not there:
        return there is None
    members = there["consumers"]
    held = sum(-(-each["unackedMessages"] // max(1, each["avgMessagesPerEntry"])) for each in members)  # in entries
    return there["msgBacklog"] > held and not any(each.get("drainingHashesCount") for each in members)


def _subscription(connection: PulsarConnection, log: Log, group: str, timeout: float) -> Mapping[str, Any] | None:
    """Return the broker's report on a group, empty if there is no such group; None if the broker does not answer."""
    if connection.admin is None:
        return None
    try:
        stats = connection.admin.get(f"{topic_path(connection.native_topic(log))}/stats", max(0.1, timeout))
    except (mqplug.Error, AdminRefused):
        return None
    found: Mapping[str, Any] = stats["subscriptions"].get(group, {})
    return found
