"""Creates, alters, grows, describes, deletes, lists and trims topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import attrs
from confluent_kafka import OFFSET_END, KafkaError, TopicPartition
from confluent_kafka.admin import (
    ClusterMetadata,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    TopicMetadata,  # pyright: ignore[reportPrivateImportUsage]
)

from mqplug import AccessDenied, ConfigError, Error, Log, Position, Timeout, TopicNotFound
from mqplug.spi import AlterTopic, CreateTopic, Deadline, TopicInfo
from mqplug_kafka._admin.log_offsets import LOG_END, look_up
from mqplug_kafka._admin.topic_config import (
    REPLICATION_FACTOR,
    change,
    fields_from_config,
    retention_options,
    segment_options,
)
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import code_of

TOPIC_CHECK_PAUSE_S = 0.02  # between two checks of a topic that is being created or deleted


def create(connection: KafkaConnection, action: CreateTopic, timeout: float) -> TopicInfo:
    """Create a topic. The option ``replication_factor`` is a number; all others are topic configuration."""
    deadline = Deadline(timeout)
    config = segment_options(action.retention, action.retention_bytes)
    config |= {key: str(value) for key, value in action.options.items() if key != REPLICATION_FACTOR}
    config |= retention_options(action.retention, action.retention_bytes)
    replicas = action.options.get(REPLICATION_FACTOR, -1)
    if not isinstance(replicas, int):
        raise ConfigError(f"replication_factor must be an int, not {replicas!r}", fix="Pass a whole number")
    topic = NewTopic(action.topic, num_partitions=action.partitions, replication_factor=replicas, config=config)
    connection.requests.ask(
        f"create topic {action.topic!r}",
        lambda left: connection.admin.create_topics([topic], request_timeout=left)[action.topic],
        timeout,
    )
    connection.created(action.topic)
    _until_described(connection, action.topic, action.partitions, deadline)
    return describe(connection, action.topic, deadline.remaining())


def alter(connection: KafkaConnection, action: AlterTopic, timeout: float) -> TopicInfo:
    """Change a topic's retention and configuration."""
    deadline = Deadline(timeout)
    change(connection, action, deadline)
    return describe(connection, action.topic, deadline.remaining())


def grow(connection: KafkaConnection, topic: str, partitions: int, timeout: float) -> TopicInfo:
    """Grow the topic to ``partitions`` partitions."""
    deadline = Deadline(timeout)
    there = len(connection.describe([topic], timeout)[topic].logs)
    if partitions <= there:
        raise ValueError(f"the topic {topic!r} already has {there} partitions; expected more, not {partitions}")
    wanted = NewPartitions(topic, partitions)
    connection.requests.ask(
        f"add partitions to {topic!r}",
        lambda left: connection.admin.create_partitions([wanted], request_timeout=left)[topic],
        deadline.remaining(),
    )
    _until_described(connection, topic, partitions, deadline)
    return describe(connection, topic, deadline.remaining())


def _until_described(connection: KafkaConnection, topic: str, partitions: int, deadline: Deadline) -> None:
    """Wait until the brokers know all partitions and each has a leader."""
    logs: tuple[Log, ...] = ()
    while len(logs) < partitions:
        if deadline.expired:
            raise Timeout(
                f"the brokers do not know all partitions of the topic {topic!r} yet: {len(logs)} of {partitions}",
                topic=topic, fix="Allow more time, or check that all brokers are up",
            )  # fmt: skip
        with suppress(TopicNotFound):
            logs = connection.describe([topic], deadline.remaining())[topic].logs
        time.sleep(TOPIC_CHECK_PAUSE_S * (len(logs) < partitions))
    while True:
        try:
            look_up(connection, logs, LOG_END)(deadline.remaining())
        except TopicNotFound:  # leaders may learn of the topic after the broker that described it
            if deadline.expired:
                raise
            time.sleep(TOPIC_CHECK_PAUSE_S)
        else:
            return


def describe(connection: KafkaConnection, topic: str, timeout: float) -> TopicInfo:
    """Return a topic, with its retention and options if this client may read its configuration."""

    def ask(left: float) -> TopicInfo:
        return connection.requests.insist(lambda some: _describe(connection, topic, some), left)

    return connection.while_new([topic], timeout, ask)


def _describe(connection: KafkaConnection, topic: str, timeout: float) -> TopicInfo:
    deadline = Deadline(timeout)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
    asked = connection.admin.describe_configs([wanted], request_timeout=timeout)[wanted]
    info = connection.describe([topic], timeout)[topic]
    try:
        config = connection.requests.wait("describe", asked, deadline.remaining())
    except AccessDenied:
        return info
    return attrs.evolve(info, **fields_from_config(config))


def delete(connection: KafkaConnection, topic: str, timeout: float) -> None:
    """Delete a topic, and wait until the brokers no longer describe it."""
    deadline = Deadline(timeout)
    connection.requests.ask(
        f"delete topic {topic!r}",
        lambda left: connection.admin.delete_topics([topic], request_timeout=left)[topic],
        timeout,
    )
    connection.forget(topic)
    while not deadline.expired:
        try:
            connection.describe([topic], deadline.remaining())
        except TopicNotFound:
            return
        time.sleep(TOPIC_CHECK_PAUSE_S)


def names(connection: KafkaConnection, timeout: float) -> list[str]:
    """Return all topics except Kafka's own, whose names begin with two underscores."""
    return list(_listed(connection, timeout))


def all_partitions(connection: KafkaConnection, timeout: float) -> list[tuple[str, int]]:
    """Return topic and number of all partitions, except for Kafka's own topics."""
    return [(name, number) for name, topic in _listed(connection, timeout).items() for number in topic.partitions]


def _listed(connection: KafkaConnection, timeout: float) -> dict[str, TopicMetadata]:
    def ask(left: float) -> ClusterMetadata:
        listed = connection.worker.run(lambda: connection.admin.list_topics(timeout=left))
        return connection.requests.wait("list topics", listed, left)

    found = connection.requests.insist(ask, timeout).topics
    return {name: topic for name, topic in found.items() if name[:2] != "__"}


def trim(connection: KafkaConnection, before: Mapping[Log, Position], timeout: float) -> None:
    """Delete the records before these positions. A position beyond the end deletes all records."""
    deadline = Deadline(timeout)
    connection.check(before, timeout)
    wanted = [TopicPartition(log.topic, log.partition, to.coordinates[0]) for log, to in before.items()]
    asked = connection.admin.delete_records(wanted, request_timeout=max(0.01, deadline.remaining()))
    for each in wanted:
        try:
            connection.requests.wait("trim", asked[each], deadline.remaining())
        except Error as error:
            if code_of(error) != KafkaError.OFFSET_OUT_OF_RANGE:
                raise
            everything = TopicPartition(each.topic, each.partition, OFFSET_END)
            left = max(0.01, deadline.remaining())
            again = connection.admin.delete_records([everything], request_timeout=left)
            connection.requests.wait("trim", again[everything], left)
