"""Creating, deleting and listing topics, through the admin interface."""

from __future__ import annotations

import math
import time
from http import HTTPStatus
from urllib.parse import quote

import mqplug
from mqplug.spi import CreateTopic, TopicInfo
from mqplug_pulsar._admin import Admin, Refused, refusal, topic_name, topic_path
from mqplug_pulsar._connection import PulsarConnection
from mqplug_pulsar._names import parent

WEEK = 7 * 24 * 3600.0


def create(connection: PulsarConnection, action: CreateTopic, timeout: float) -> TopicInfo:
    """Create a partitioned topic that keeps its messages for so long, acked or not."""
    end = time.monotonic() + timeout
    admin = needed(connection, "creating topics")
    if action.options:
        raise mqplug.ConfigError(f"Pulsar topics have no option {min(action.options)!r}", fix="Leave options= out")
    path = topic_path(connection.names.full(action.topic))
    name = connection.names.canonical(action.topic)
    _refuse_existing(connection, action.topic, path, timeout)
    try:
        admin.put(f"{path}/partitions", action.partitions, end - time.monotonic())
    except Refused as error:
        if error.status == HTTPStatus.PRECONDITION_FAILED:
            raise mqplug.InvalidName(
                f"Pulsar refuses this name: {error.reason}", topic=action.topic, fix="Choose another name"
            ) from error
        raise refusal(error, action.topic) from error
    connection.forget(name)
    _keep(admin, path, action, end)
    return connection.describe(action.topic, end - time.monotonic())


def delete(connection: PulsarConnection, topic: str, timeout: float) -> None:
    """Delete a topic, partitioned or not, whoever uses it."""
    admin = needed(connection, "deleting topics")
    path = topic_path(connection.names.full(topic))
    try:
        admin.delete(f"{path}/partitions?force=true", timeout)
    except Refused as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise refusal(error, topic) from error
        _delete_unpartitioned(admin, path, topic, timeout)
    connection.forget(connection.names.canonical(topic))


def names(connection: PulsarConnection, timeout: float) -> list[str]:
    """The topics of the namespace, but for Pulsar's own and the partitions of others."""
    admin = needed(connection, "listing topics")
    tenant, namespace = (quote(part, safe="") for part in (connection.names.tenant, connection.names.namespace))
    home = f"persistent/{tenant}/{namespace}"
    try:
        partitioned = {topic_name(each) for each in admin.get(f"{home}/partitioned", timeout)}
        every = {topic_name(each) for each in admin.get(home, timeout)}
    except Refused as error:
        raise mqplug.Error(f"the topics of the namespace cannot be listed: {error}") from error
    plain = {each for each in every if parent(each) not in partitioned}
    found = {connection.names.canonical(each) for each in partitioned | plain}
    return sorted(name for name in found if not name.startswith("__"))


def needed(connection: PulsarConnection, what: str) -> Admin:
    """The admin interface, or an error that says how to have one."""
    if connection.admin is None:
        raise mqplug.ConfigError(
            f"{what} needs Pulsar's admin interface", fix="Say admin_url=, as in admin_url='http://host:8080'"
        )
    return connection.admin


def _refuse_existing(connection: PulsarConnection, topic: str, path: str, timeout: float) -> None:
    """An unpartitioned topic of the same name would not stand in the way of a partitioned one."""
    try:
        needed(connection, "creating topics").get(f"{path}/internalStats", timeout)
    except Refused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return
        raise refusal(error, topic) from error
    raise mqplug.TopicExists(f"there is a topic {topic!r} already", topic=topic)


def _keep(admin: Admin, path: str, action: CreateTopic, end: float) -> None:
    """Pulsar by itself deletes what was acked at once, and keeps for ever what was not: set both alike."""
    seconds = WEEK if action.retention is None else action.retention
    policies: list[tuple[str, object]] = [
        ("retention", {"retentionTimeInMinutes": max(1, math.ceil(seconds / 60)), "retentionSizeInMB": -1}),
        (f"messageTTL?messageTTL={max(1, math.ceil(seconds))}", None),
    ]
    for policy, body in policies:
        try:
            admin.post(f"{path}/{policy}", body, end - time.monotonic())
        except (Refused, mqplug.AccessDenied) as error:
            if action.retention is not None:
                raise mqplug.Error(
                    f"the topic was created, but its retention could not be set: {error}",
                    topic=action.topic, fix="Allow topic policies in the broker, or leave retention= out",
                ) from error  # fmt: skip


def _delete_unpartitioned(admin: Admin, path: str, topic: str, timeout: float) -> None:
    try:
        admin.delete(f"{path}?force=true", timeout)
    except Refused as error:
        raise refusal(error, topic) from error
