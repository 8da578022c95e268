"""Changes a topic's configuration, and waits until every broker describes the topic so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ConfigSource,  # pyright: ignore[reportPrivateImportUsage]
)

from mqplug import AccessDenied, ConfigError, Timeout
from mqplug.spi import AlterTopic, Deadline, TopicInfo
from mqplug_kafka._admin.retention import changed_segment_options, retention_options
from mqplug_kafka._admin.topics import REPLICATION_FACTOR, describe
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import native

BROKER_ANSWER_S = 2.0  # a broker that does not answer learns of a change before it serves again
OPTION_CHECK_S = 2.0  # the broker may spell an option otherwise than the caller did: then it is not recognised
CHECK_PAUSE_S = 0.02

Changes = Mapping[str, str | None]
"""The new value of each setting; None for the cluster's default."""


def alter(connection: KafkaConnection, action: AlterTopic, timeout: float) -> TopicInfo:
    """Change a topic's retention and configuration, in one step."""
    deadline = Deadline(timeout)
    if REPLICATION_FACTOR in action.options:
        raise ConfigError(
            "the replication factor of a topic cannot be altered", fix="Move its replicas with Kafka's own tools"
        )
    changes = _changes(connection, action, deadline)
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, action.topic, incremental_configs=[_entry(*each) for each in changes.items()]
    )
    connection.requests.ask(
        f"alter topic {action.topic!r}",
        lambda left: connection.admin.incremental_alter_configs([resource], request_timeout=left)[resource],
        deadline.remaining(),
    )
    connection.limits.forget(action.topic)
    _until_described(connection, action, changes, deadline)
    return describe(connection, action.topic, deadline.remaining())


def _changes(connection: KafkaConnection, action: AlterTopic, deadline: Deadline) -> dict[str, str | None]:
    """Return the settings to change. Segments follow the retention, as in a new topic."""
    options = {key: None if value is None else str(value) for key, value in action.options.items()}
    limits = retention_options(action.retention, action.retention_bytes)
    if not limits:
        return options
    wanted = ConfigResource(ConfigResource.Type.TOPIC, action.topic)
    try:
        present = connection.requests.ask(
            f"alter topic {action.topic!r}",
            lambda left: connection.admin.describe_configs([wanted], request_timeout=left)[wanted],
            deadline.remaining(),
        )
    except AccessDenied:  # a client may have the right to change what it must not read
        present = {}
    return {**changed_segment_options(present, action.retention, action.retention_bytes), **options, **limits}


def _entry(name: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)


def _until_described(connection: KafkaConnection, action: AlterTopic, changes: Changes, deadline: Deadline) -> None:
    """Wait until all brokers that answer describe the change, whichever of them another client asks."""
    wanted = ConfigResource(ConfigResource.Type.TOPIC, action.topic)
    what = f"alter topic {action.topic!r}"
    cluster = connection.requests.ask(
        what, lambda left: connection.admin.describe_cluster(request_timeout=left), deadline.remaining()
    )
    late, options = {node.id for node in cluster.nodes}, Deadline(OPTION_CHECK_S)
    while True:
        wait = max(0.01, deadline.remaining(BROKER_ANSWER_S))
        asked = {
            node: connection.admin.describe_configs([wanted], request_timeout=wait, broker=node)[wanted]
            for node in late
        }
        late = {node for node, answer in asked.items() if not _shows(answer, changes, wait)}
        if not late or (options.expired and action.retention is None and action.retention_bytes is None):
            return
        if deadline.expired:
            raise Timeout(
                f"the change of the topic {action.topic!r} is stored, but {len(late)} brokers do not describe it yet",
                topic=action.topic, fix="Allow more time, or check that all brokers are up",
            )  # fmt: skip
        time.sleep(CHECK_PAUSE_S)


def _shows(answer: Future[Mapping[str, ConfigEntry]], changes: Changes, timeout: float) -> bool:
    """Return whether a broker describes the topic as changed; also True if it does not answer, or must not."""
    try:
        config = answer.result(timeout)
    except FutureTimeout:
        return True
    except KafkaException as error:
        return native(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART
    return all(_same(config.get(name), value) for name, value in changes.items())


def _same(entry: ConfigEntry | None, value: str | None) -> bool:
    if entry is None or entry.is_sensitive:
        return True
    if value is None:
        return ConfigSource(entry.source) is not ConfigSource.DYNAMIC_TOPIC_CONFIG
    return str(entry.value).replace(" ", "").lower() == value.replace(" ", "").lower()
