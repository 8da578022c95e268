"""Creates, alters, grows, describes, deletes and lists topics, with their schemas, through the admin interface."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import attrs

import mqplug
from mqplug.spi import AlterTopic, CreateTopic, Deadline, TopicInfo
from mqplug_pulsar._admin.retention import change_retention, retention_from_policies, set_retention
from mqplug_pulsar._cluster.admin_interface import (
    AdminInterface,
    AdminRefused,
    error_from_refusal,
    topic_name,
    topic_path,
)
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format.topic_names import is_system_topic, parent

PARTITIONS_CHECK_PAUSE_S = 0.02


def create(connection: PulsarConnection, action: CreateTopic, timeout: float) -> TopicInfo:
    """Create a partitioned topic, with its retention for acked and unacked messages, and its schema if it has one."""
    deadline = Deadline(timeout)
    schema = schema_option(action.options)
    admin = connection.required_admin("auto_create_topics", "creating topics")
    path = topic_path(connection.names.full(action.topic))
    name = connection.names.canonical(action.topic)
    _refuse_existing(connection, action.topic, path, timeout)
    try:
        admin.put(f"{path}/partitions", action.partitions, deadline.remaining())
    except AdminRefused as error:
        if error.status == HTTPStatus.PRECONDITION_FAILED:
            raise mqplug.InvalidName(
                f"Pulsar refuses this name: {error.reason}", topic=action.topic, fix="Choose another name"
            ) from error
        raise error_from_refusal(error, action.topic) from error
    connection.forget(name)
    if schema is not None:
        try:
            upload_schema(admin, connection.names.full(action.topic), schema, deadline.remaining())
        except mqplug.ConfigError:
            delete(connection, action.topic, max(1.0, deadline.remaining()))
            raise
    set_retention(admin, path, action, deadline)
    return describe(connection, action.topic, deadline.remaining())


def alter(connection: PulsarConnection, action: AlterTopic, timeout: float) -> TopicInfo:
    """Change a topic's retention, and give it a new version of its schema."""
    deadline = Deadline(timeout)
    schema = schema_option(action.options)
    admin = connection.required_admin("alter_topic", "altering topics")
    full = connection.names.full(action.topic)
    connection.describe(action.topic, timeout)
    if schema is not None:
        upload_schema(admin, full, schema, deadline.remaining())
    if action.retention is not None or action.retention_bytes is not None:
        try:
            change_retention(admin, topic_path(full), action, deadline)
        except AdminRefused as error:
            if error.status != HTTPStatus.METHOD_NOT_ALLOWED:
                raise error_from_refusal(error, action.topic) from error
            raise mqplug.Error(
                f"the retention of the topic cannot be altered: {error}",
                topic=action.topic, fix="Allow topic policies in the broker",
            ) from error  # fmt: skip
    return describe(connection, action.topic, max(0.01, deadline.remaining()))


def grow(connection: PulsarConnection, topic: str, partitions: int, timeout: float) -> TopicInfo:
    """Grow the topic to ``partitions`` partitions. The broker adds each to the topic's groups, from its start."""
    deadline = Deadline(timeout)
    admin = connection.required_admin("add_partitions", "adding partitions")
    there = len(connection.describe(topic, timeout).logs)
    if partitions <= there:
        raise ValueError(f"the topic {topic!r} already has {there} partitions; expected more, not {partitions}")
    try:
        admin.post(f"{topic_path(connection.names.full(topic))}/partitions", partitions, deadline.remaining())
    except AdminRefused as error:
        if error.status == HTTPStatus.CONFLICT:
            raise mqplug.Unsupported(
                "add_partitions",
                f"the topic {topic!r} was created without partitions, so none can be added",
                topic=topic,
            ) from error
        raise error_from_refusal(error, topic) from error
    while len(connection.describe(topic, max(0.01, deadline.remaining())).logs) < partitions:
        if deadline.expired:
            raise mqplug.Timeout(
                f"the broker does not list all {partitions} partitions of the topic {topic!r} yet",
                topic=topic, fix="Allow more time",
            )  # fmt: skip
        time.sleep(PARTITIONS_CHECK_PAUSE_S)
    return describe(connection, topic, max(0.01, deadline.remaining()))


def describe(connection: PulsarConnection, topic: str, timeout: float) -> TopicInfo:
    """Return a topic, with its retention if this client may read it."""
    admin = connection.admin
    if admin is None or timeout <= 0:
        return connection.describe(topic, timeout)
    retention = connection.calls.start(
        lambda: retention_from_policies(admin, topic_path(connection.names.full(topic)), timeout)
    )
    info = connection.describe(topic, timeout)
    return attrs.evolve(info, **retention.result())


def delete(connection: PulsarConnection, topic: str, timeout: float) -> None:
    """Delete a topic, partitioned or not, even if it is in use."""
    admin = connection.required_admin("delete_topic", "deleting topics")
    path = topic_path(connection.names.full(topic))
    try:
        admin.delete(f"{path}/partitions?force=true", timeout)
    except AdminRefused as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise error_from_refusal(error, topic) from error
        _delete_unpartitioned(admin, path, topic, timeout)
    connection.forget(connection.names.canonical(topic))


def names(connection: PulsarConnection, timeout: float) -> list[str]:
    """Return the topics of the connection's namespace."""
    home = connection.names
    try:
        found = full_names(
            connection.required_admin("list_topics", "listing topics"), home.tenant, home.namespace, timeout
        )
    except AdminRefused as error:
        raise mqplug.Error(f"the topics of {home.tenant}/{home.namespace} cannot be listed: {error}") from error
    return sorted(map(home.canonical, found))


def full_names(admin: AdminInterface, tenant: str, namespace: str, timeout: float) -> set[str]:
    """Return the full names of a namespace's topics, without Pulsar's own topics and single partitions."""
    path = "/".join(["persistent", quote(tenant, safe=""), quote(namespace, safe="")])
    partitioned = {topic_name(each) for each in admin.get(f"{path}/partitioned", timeout)}
    every = {topic_name(each) for each in admin.get(path, timeout)}
    plain = {each for each in every if parent(each) not in partitioned}
    return {each for each in partitioned | plain if not is_system_topic(each.rpartition("/")[2])}


def describe_all(connection: PulsarConnection, topics: Sequence[str], timeout: float) -> list[TopicInfo]:
    """Return these topics, without their retention. Raise ``TopicNotFound`` if one is missing."""
    found = connection.calls.each({topic: partial(connection.describe, topic, timeout) for topic in topics}, timeout)
    return [found[topic] for topic in topics]


def _refuse_existing(connection: PulsarConnection, topic: str, path: str, timeout: float) -> None:
    """Raise ``TopicExists`` if it exists. Pulsar would accept a partitioned and an unpartitioned topic of one name."""
    try:
        connection.required_admin("auto_create_topics", "creating topics").get(f"{path}/internalStats", timeout)
    except AdminRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return
        raise error_from_refusal(error, topic) from error
    raise mqplug.TopicExists(f"the topic {topic!r} already exists", topic=topic)


def _delete_unpartitioned(admin: AdminInterface, path: str, topic: str, timeout: float) -> None:
    try:
        admin.delete(f"{path}?force=true", timeout)
    except AdminRefused as error:
        raise error_from_refusal(error, topic) from error


SCHEMA_OPTION = "schema"
SCHEMA_KEYS = {"type", "schema", "properties"}


def schema_option(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the options of a topic, with all checks that need no broker."""
    if unknown := options.keys() - {SCHEMA_OPTION}:
        raise mqplug.ConfigError(
            f"Pulsar topics have no option {min(unknown)!r}", fix=f"Leave it out: the only option is {SCHEMA_OPTION!r}"
        )
    if SCHEMA_OPTION not in options:
        return None
    given = options[SCHEMA_OPTION]
    try:
        schema = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        schema = None
    if not isinstance(schema, Mapping) or not schema.keys() <= SCHEMA_KEYS or not isinstance(schema.get("type"), str):
        raise mqplug.ConfigError(
            "the option schema must have the form that pulsar-admin uploads",
            fix='Write {"type": "AVRO", "schema": "...", "properties": {}}, as JSON or a mapping',
        )
    definition = schema.get("schema", "")
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return {"type": schema["type"], "schema": text, "properties": dict(schema.get("properties") or {})}


def upload_schema(admin: AdminInterface, full: str, schema: dict[str, Any], timeout: float) -> None:
    """Give a topic its first schema, or a new version of it."""
    path = "/".join(quote(part, safe="") for part in full.partition("://")[2].split("/", 2))
    try:
        admin.post(f"schemas/{path}/schema", schema, timeout)
    except AdminRefused as error:
        raise mqplug.ConfigError(
            f"Pulsar refuses the schema: {error.reason}", topic=full, fix="Correct the option schema"
        ) from error
