"""Lists groups with their number of members, and deletes a group, through the admin interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import mqplug
from mqplug.spi import Deadline, GroupInfo
from mqplug_pulsar._admin import topics
from mqplug_pulsar._cluster.admin_interface import (
    ADMIN_URL_FIX,
    AdminRefused,
    error_from_refusal,
    group_path,
    topic_path,
)
from mqplug_pulsar._cluster.connection import PROBE_NAME, PulsarConnection

T = TypeVar("T")

Statistics = Mapping[str, Any]
"""What the broker reports of a topic, a subscription or a consumer."""

MembersByGroup = dict[str, set[str]]
"""The names of the members of each group."""


def groups(connection: PulsarConnection, topic: str | None, timeout: float) -> list[GroupInfo]:
    """Return the groups of a topic, or of all topics of the namespace."""
    found: MembersByGroup = {}
    for members in _by_topic(connection, topic, Deadline(timeout)).values():
        for group, names in members.items():
            found.setdefault(group, set()).update(names)
    return [GroupInfo(group, len(names)) for group, names in sorted(found.items())]


def delete(connection: PulsarConnection, group: str, timeout: float) -> None:
    """Delete a group on all topics of the namespace. Brokers refuse that while it has members."""
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
    if connection.admin is None:
        raise mqplug.Unsupported(
            "groups", "listing and deleting groups needs Pulsar's admin interface", fix=ADMIN_URL_FIX
        )
    if topic is not None:
        return {topic: _members(connection, topic, deadline)}
    return on_each_topic(connection, lambda name: _members(connection, name, deadline), deadline)


def on_each_topic(connection: PulsarConnection, ask: Callable[[str], T], deadline: Deadline) -> dict[str, T]:
    """Return the answer about each topic of the namespace, at once, without topics that are deleted meanwhile."""

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
    """Return whether a subscription is a group: it is durable, and none of this plugin's own."""
    return bool(subscription["isDurable"]) and not name.startswith(PROBE_NAME)


def member_name(consumer: Statistics) -> str:
    """Return the name of a member, which is the same on all partitions."""
    return str(consumer["consumerName"] or consumer["address"])


def partition_statistics(connection: PulsarConnection, topic: str, deadline: Deadline) -> dict[str, Statistics]:
    """Return the statistics of each partition, by its native topic."""
    admin = topics.required_admin(connection, "groups", "listing groups")
    full = connection.names.full(topic)
    path = topic_path(full)
    try:
        parts = admin.get(f"{path}/partitioned-stats?perPartition=true", _left(deadline))
        return dict(parts["partitions"])
    except AdminRefused as error:
        # The second is the answer about a partition, which is listed alone while its topic is being deleted.
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
            raise error_from_refusal(error, topic) from error
    try:
        return {full: admin.get(f"{path}/stats", _left(deadline))}
    except AdminRefused as error:
        raise error_from_refusal(error, topic) from error


def _delete(connection: PulsarConnection, log: mqplug.Log, group: str, deadline: Deadline) -> None:
    path = group_path(connection.native_topic(log), group)
    try:
        topics.required_admin(connection, "groups", "deleting groups").delete(path, _left(deadline))
    except AdminRefused as error:
        if error.status == HTTPStatus.PRECONDITION_FAILED:
            raise _busy(group) from error
        if error.status != HTTPStatus.NOT_FOUND:  # it is not on every partition
            raise error_from_refusal(error, log.topic) from error


def _busy(group: str) -> mqplug.ConsumerBusy:
    return mqplug.ConsumerBusy(f"the group {group!r} has members", fix="Close its consumers first")


def _left(deadline: Deadline) -> float:
    return max(0.01, deadline.remaining())
