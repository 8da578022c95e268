"""Describes a group through the admin interface: the topics of the namespace that have it, and its consumers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mqplug
from mqplug import GroupDescription, GroupMember, Log
from mqplug.spi import Deadline
from mqplug_pulsar._admin.group_listing import Statistics, is_group, member_name, on_each_topic, partition_statistics
from mqplug_pulsar._cluster.admin_interface import ADMIN_URL_FIX
from mqplug_pulsar._cluster.connection import PulsarConnection

SINGLE_ACTIVE = {"Failover", "Exclusive"}  # the types of subscriptions whose messages go to one consumer

Subscriptions = Mapping[Log, Statistics]
"""What the broker reports of a group, for each log that has it."""


def describe(connection: PulsarConnection, group: str, timeout: float) -> GroupDescription:
    """Return the topics of the namespace that have the group, and its members; ``GroupNotFound`` if none has it."""
    if connection.admin is None:
        raise mqplug.Unsupported("groups", "describing groups needs Pulsar's admin interface", fix=ADMIN_URL_FIX)
    deadline = Deadline(timeout)
    by_topic = on_each_topic(connection, lambda topic: _subscriptions(connection, topic, group, deadline), deadline)
    found = {log: each for logs in by_topic.values() for log, each in logs.items()}
    if not found:
        raise mqplug.GroupNotFound(f"no topic of the namespace has the group {group!r}")
    return GroupDescription(group, tuple(sorted({log.topic for log in found})), tuple(_members(found)))


def _subscriptions(connection: PulsarConnection, topic: str, group: str, deadline: Deadline) -> Subscriptions:
    statistics = partition_statistics(connection, topic, deadline)
    there = {name: each["subscriptions"].get(group) for name, each in statistics.items()}
    if not any(each is not None and is_group(group, each) for each in there.values()):
        return {}
    logs = connection.describe(topic, max(0.01, deadline.remaining())).logs
    found = {log: there.get(connection.native_topic(log)) for log in logs}
    return {log: each for log, each in found.items() if each is not None}


def _members(subscriptions: Subscriptions) -> Iterable[GroupMember]:
    hosts: dict[str, str | None] = {}
    held: dict[str, set[Log]] = {}
    for log, subscription in subscriptions.items():
        for consumer in subscription["consumers"]:
            name = member_name(consumer)
            hosts[name] = _host(consumer)
            mine = held.setdefault(name, set())  # it may have several consumers on a log
            if subscription["type"] not in SINGLE_ACTIVE or name == subscription.get("activeConsumerName"):
                mine.add(log)
    for name, logs in sorted(held.items()):
        yield GroupMember(name, hosts[name], tuple(sorted(logs, key=lambda log: (log.topic, log.partition))))


def _host(consumer: Statistics) -> str | None:
    """Return the host in an address as Java writes it, ``/10.0.0.1:40000``."""
    address = str(consumer.get("address") or "").rpartition("/")[2]
    return address.rpartition(":")[0].strip("[]") or None
