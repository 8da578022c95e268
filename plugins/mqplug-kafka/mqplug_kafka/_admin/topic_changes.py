"""Changes a topic's configuration, and waits until every broker describes the topic so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, TimeoutError as FutureTimeout
from itertools import repeat
from typing import TypeVar

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
SPREAD_S = 2.0  # by then, brokers that agree have the change, even if they show another value
CHECK_PAUSE_S = 0.02

T = TypeVar("T")

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
    _ask(
        connection,
        action.topic,
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
        present = _ask(
            connection,
            action.topic,
            lambda left: connection.admin.describe_configs([wanted], request_timeout=left)[wanted],
            deadline.remaining(),
        )
    except AccessDenied:  # a client may have the right to change what it must not read
        present = {}
    return {**changed_segment_options(present, action.retention, action.retention_bytes), **options, **limits}


def _ask(connection: KafkaConnection, topic: str, ask: Callable[[float], Future[T]], timeout: float) -> T:
    """Return the answer to a request about a topic, which some broker may not know yet."""
    what = f"alter topic {topic!r}"
    return connection.while_new([topic], timeout, lambda left: connection.requests.ask(what, ask, left))


def _entry(name: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)


def _until_described(connection: KafkaConnection, action: AlterTopic, changes: Changes, deadline: Deadline) -> None:
    """Wait until all brokers that answer describe the change, whichever of them another client asks.

    They may never do so, if they spell an option otherwise, or if another client changed it again meanwhile.
    """
    wanted = ConfigResource(ConfigResource.Type.TOPIC, action.topic)
    what = f"alter topic {action.topic!r}"
    # Not by describe_cluster: it ends the process if a broker that is starting knows of no broker.
    listed = connection.worker.run(
        lambda: connection.admin.list_topics(action.topic, timeout=max(0.01, deadline.remaining()))
    )
    nodes = list(connection.requests.wait(what, listed, deadline.remaining()).brokers)
    spread = Deadline(SPREAD_S)
    while True:
        wait = max(0.01, deadline.remaining(BROKER_ANSWER_S))
        asked = [
            connection.admin.describe_configs([wanted], request_timeout=wait, broker=node)[wanted] for node in nodes
        ]
        shown = [found for answer in asked if (found := _shown(answer, changes, wait)) is not None]
        if all(map(_same, shown, repeat(changes))) or (spread.expired and shown.count(shown[0]) == len(shown)):
            return
        if deadline.expired:
            raise Timeout(
                f"the change of the topic {action.topic!r} is stored, but not all brokers describe it yet",
                topic=action.topic, fix="Allow more time, or check that all brokers are up",
            )  # fmt: skip
        time.sleep(CHECK_PAUSE_S)


def _shown(answer: Future[Mapping[str, ConfigEntry]], changes: Changes, timeout: float) -> Changes | None:
    """Return what a broker shows of the changed settings; None if it does not answer, or must not."""
    try:
        config = answer.result(timeout)
    except FutureTimeout:
        return None
    except KafkaException as error:
        return {} if native(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
    return {name: _value(config[name], changes[name]) for name in changes if name in config}


def _value(entry: ConfigEntry, wanted: str | None) -> str | None:
    """Return the value of a setting, None if it is the cluster's; a secret is taken for the wanted one."""
    own = ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return wanted if entry.is_sensitive else str(entry.value) if own else None


def _same(shown: Changes, changes: Changes) -> bool:
    """Return whether these are the changes, however they are spelled."""
    return {name: _spelled(value) for name, value in shown.items()} == {
        name: _spelled(value) for name, value in changes.items()
    }


def _spelled(value: str | None) -> str | None:
    return None if value is None else value.replace(" ", "").lower()
