"""Creating, deleting and listing topics, through the admin interface."""

from __future__ import annotations

import time
from http import HTTPStatus
from urllib.parse import quote

import attrs

import mqplug
from mqplug.spi import CreateTopic, TopicInfo
from mqplug_pulsar._admin.retention import retention_from_policies, set_retention
from mqplug_pulsar._cluster.admin_interface import (
    AdminInterface,
    AdminRefused,
    error_from_refusal,
    topic_name,
    topic_path,
)
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.topic_names import parent

PARTITIONS_CHECK_PAUSE_S = 0.02


def create(connection: PulsarConnection, action: CreateTopic, timeout: float) -> TopicInfo:
    """Create a partitioned topic that keeps its messages for so long, acked or not."""
    end = time.monotonic() + timeout
    admin = required_admin(connection, "creating topics")
    if action.options:
        raise mqplug.ConfigError(f"Pulsar topics have no option {min(action.options)!r}", fix="Leave options= out")
    path = topic_path(connection.names.full(action.topic))
    name = connection.names.canonical(action.topic)
    _refuse_existing(connection, action.topic, path, timeout)
    try:
        admin.put(f"{path}/partitions", action.partitions, end - time.monotonic())
    except AdminRefused as error:
        if error.status == HTTPStatus.PRECONDITION_FAILED:
            raise mqplug.InvalidName(
                f"Pulsar refuses this name: {error.reason}", topic=action.topic, fix="Choose another name"
            ) from error
        raise error_from_refusal(error, action.topic) from error
    connection.forget(name)
    set_retention(admin, path, action, end)
    return describe(connection, action.topic, end - time.monotonic())


def grow(connection: PulsarConnection, topic: str, partitions: int, timeout: float) -> TopicInfo:
    """Have more partitions. The broker gives them to the groups of the topic, from their beginning."""
    end = time.monotonic() + timeout
    if connection.admin is None:
        raise mqplug.Unsupported(
            "add_partitions", "adding partitions needs Pulsar's admin interface", fix="Say admin_url="
        )
    there = len(connection.describe(topic, timeout).logs)
    if partitions <= there:
        raise ValueError(f"the topic {topic!r} has {there} partitions already: {partitions} would not be more")
    try:
        connection.admin.post(
            f"{topic_path(connection.names.full(topic))}/partitions", partitions, end - time.monotonic()
        )
    except AdminRefused as error:
        if error.status == HTTPStatus.CONFLICT:
            raise mqplug.Unsupported(
                "add_partitions", f"the topic {topic!r} was made without partitions, and stays so", topic=topic
            ) from error
        raise error_from_refusal(error, topic) from error
    while len(connection.describe(topic, max(0.01, end - time.monotonic())).logs) < partitions:
        if time.monotonic() >= end:
            raise mqplug.Timeout("the broker does not tell of all partitions yet", topic=topic)
        time.sleep(PARTITIONS_CHECK_PAUSE_S)
    return describe(connection, topic, max(0.01, end - time.monotonic()))


def describe(connection: PulsarConnection, topic: str, timeout: float) -> TopicInfo:
    """A topic, and what it retains, where the admin interface tells that to us; both are asked at once."""
    admin = connection.admin
    if admin is None or timeout <= 0:
        return connection.describe(topic, timeout)
    told = connection.calls.start(
        lambda: retention_from_policies(admin, topic_path(connection.names.full(topic)), timeout)
    )
    info = connection.describe(topic, timeout)
    return attrs.evolve(info, **told.result())


def delete(connection: PulsarConnection, topic: str, timeout: float) -> None:
    """Delete a topic, partitioned or not, whoever uses it."""
    admin = required_admin(connection, "deleting topics")
    path = topic_path(connection.names.full(topic))
    try:
        admin.delete(f"{path}/partitions?force=true", timeout)
    except AdminRefused as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise error_from_refusal(error, topic) from error
        _delete_unpartitioned(admin, path, topic, timeout)
    connection.forget(connection.names.canonical(topic))


def names(connection: PulsarConnection, timeout: float) -> list[str]:
    """The topics of the namespace, but for Pulsar's own and the partitions of others."""
    admin = required_admin(connection, "listing topics")
    tenant, namespace = (quote(part, safe="") for part in (connection.names.tenant, connection.names.namespace))
    home = f"persistent/{tenant}/{namespace}"
    try:
        partitioned = {topic_name(each) for each in admin.get(f"{home}/partitioned", timeout)}
        every = {topic_name(each) for each in admin.get(home, timeout)}
    except AdminRefused as error:
        raise mqplug.Error(f"the topics of the namespace cannot be listed: {error}") from error
    plain = {each for each in every if parent(each) not in partitioned}
    found = {connection.names.canonical(each) for each in partitioned | plain}
    return sorted(name for name in found if not name.startswith("__"))


def required_admin(connection: PulsarConnection, what: str) -> AdminInterface:
    """The admin interface, or an error that says how to have one."""
    if connection.admin is None:
        raise mqplug.ConfigError(
            f"{what} needs Pulsar's admin interface", fix="Say admin_url=, as in admin_url='http://host:8080'"
        )
    return connection.admin


def _refuse_existing(connection: PulsarConnection, topic: str, path: str, timeout: float) -> None:
    """An unpartitioned topic of the same name would not stand in the way of a partitioned one."""
    try:
        required_admin(connection, "creating topics").get(f"{path}/internalStats", timeout)
    except AdminRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return
        raise error_from_refusal(error, topic) from error
    raise mqplug.TopicExists(f"there is a topic {topic!r} already", topic=topic)


def _delete_unpartitioned(admin: AdminInterface, path: str, topic: str, timeout: float) -> None:
    try:
        admin.delete(f"{path}?force=true", timeout)
    except AdminRefused as error:
        raise error_from_refusal(error, topic) from error
