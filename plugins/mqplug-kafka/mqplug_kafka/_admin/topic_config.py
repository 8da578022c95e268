"""A topic's configuration: reads its retention, where -1 means unlimited, and changes it on all brokers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, TimeoutError as FutureTimeout
from itertools import repeat
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ConfigSource,  # pyright: ignore[reportPrivateImportUsage]
)

from mqplug import AccessDenied, ConfigError, Timeout
from mqplug.spi import AlterTopic, Deadline
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import client_error

DEFAULT_SEGMENT_S = 7 * 24 * 3600.0  # Kafka's default for segment.ms
DEFAULT_SEGMENT_BYTES = 1 << 30  # Kafka's default for segment.bytes
MIN_SEGMENT_BYTES = 1 << 20  # Kafka 4 refuses less
RETENTION_MS, RETENTION_BYTES, CLEANUP_POLICY = "retention.ms", "retention.bytes", "cleanup.policy"
SEGMENT_MS, SEGMENT_BYTES = "segment.ms", "segment.bytes"

REPLICATION_FACTOR = "replication_factor"
"""The only option that is not part of the topic's configuration."""
BROKER_ANSWER_S = 2.0  # a broker that does not answer in time learns of a change before it serves again
SPREAD_S = 2.0  # after this time, brokers that agree have the change, even if they show another value
CHECK_PAUSE_S = 0.02

T = TypeVar("T")

Changes = Mapping[str, str | None]
"""The new value of each setting; None for the cluster's default."""


def retention_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """Return the configuration for the given limits. None leaves a limit to the cluster."""
    options = {}
    if seconds is not None:
        options[RETENTION_MS] = str(-1 if math.isinf(seconds) else round(seconds * 1000))
    if size is not None:
        options[RETENTION_BYTES] = str(size)
    return options


def segment_options(seconds: float | None, size: int | None) -> dict[str, str]:
    """Return the segment configuration for a short retention: Kafka keeps the segment that it writes to."""
    options = {}
    if seconds is not None and seconds < DEFAULT_SEGMENT_S:
        options[SEGMENT_MS] = str(max(1000, round(seconds * 1000)))
    if size is not None and size < 4 * DEFAULT_SEGMENT_BYTES:
        options[SEGMENT_BYTES] = str(max(MIN_SEGMENT_BYTES, size // 4))
    return options


def changed_segment_options(
    present: Mapping[str, ConfigEntry], seconds: float | None, size: int | None
) -> dict[str, str | None]:
    """Return the segment settings to change with these new limits; None for the cluster's default.

    A topic keeps its own segment settings, unless they are the ones that its present limits caused.
    """
    wanted = segment_options(seconds, size)
    if not present:
        return {**wanted}
    before = segment_options(*_limits(present))
    changed: dict[str, str | None] = {}
    for name, limit in ((SEGMENT_MS, seconds), (SEGMENT_BYTES, size)):
        own = ConfigSource(present[name].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
        value = str(present[name].value) if own else None
        if limit is not None and value in {None, before.get(name)} and value != wanted.get(name):
            changed[name] = wanted.get(name)
    return changed


def fields_from_config(config: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """Return the ``TopicInfo`` fields that a topic's configuration defines."""
    options = {name: each.value for name, each in sorted(config.items()) if _is_own(each)}
    if "delete" not in str(config[CLEANUP_POLICY].value):
        return {"retention": math.inf, "options": options}  # compaction by itself removes nothing by age
    seconds, size = _limits(config)
    return {"retention": seconds, "retention_bytes": size, "options": options}


def _is_own(entry: ConfigEntry) -> bool:
    """Return whether a setting is the topic's own, other than its retention."""
    own = ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return own and entry.value is not None and entry.name not in {RETENTION_MS, RETENTION_BYTES}


def _limits(config: Mapping[str, ConfigEntry]) -> tuple[float, int | None]:
    """Return the retention in seconds, and in bytes if it is limited."""
    milliseconds, size = int(str(config[RETENTION_MS].value)), int(str(config[RETENTION_BYTES].value))
    return math.inf if milliseconds < 0 else milliseconds / 1000, None if size < 0 else size


def change(connection: KafkaConnection, action: AlterTopic, deadline: Deadline) -> None:
    """Change a topic's retention and configuration, in one step."""
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


def _changes(connection: KafkaConnection, action: AlterTopic, deadline: Deadline) -> dict[str, str | None]:
    """Return the settings to change. The segment settings follow the retention, as in a new topic."""
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
    except AccessDenied:  # a client may be allowed to change settings that it may not read
        present = {}
    return {**changed_segment_options(present, action.retention, action.retention_bytes), **options, **limits}


def _ask(connection: KafkaConnection, topic: str, ask: Callable[[float], Future[T]], timeout: float) -> T:
    """Return the answer to a request about a topic, even if some brokers do not know the topic yet."""
    what = f"alter topic {topic!r}"
    return connection.while_new([topic], timeout, lambda left: connection.requests.ask(what, ask, left))


def _entry(name: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)


def _until_described(connection: KafkaConnection, action: AlterTopic, changes: Changes, deadline: Deadline) -> None:
    """Wait until all brokers that answer describe the change: other clients may ask any of them.

    They may never do so, if they spell an option differently, or if another client has changed it again.
    """
    wanted = ConfigResource(ConfigResource.Type.TOPIC, action.topic)
    what = f"alter topic {action.topic!r}"
    # Not by describe_cluster: it ends the process if a starting broker knows of no broker.
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
    """Return the changed settings as a broker shows them; None if it does not answer, or refuses to."""
    try:
        config = answer.result(timeout)
    except FutureTimeout:
        return None
    except KafkaException as error:
        return {} if client_error(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
    return {name: _value(config[name], changes[name]) for name in changes if name in config}


def _value(entry: ConfigEntry, wanted: str | None) -> str | None:
    """Return a topic's own value of a setting, or None. A secret value counts as the wanted one."""
    own = ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return wanted if entry.is_sensitive else str(entry.value) if own else None


def _same(shown: Changes, changes: Changes) -> bool:
    """Return whether these are the changes, regardless of spelling."""
    return {name: _spelled(value) for name, value in shown.items()} == {
        name: _spelled(value) for name, value in changes.items()
    }


def _spelled(value: str | None) -> str | None:
    return None if value is None else value.replace(" ", "").lower()
