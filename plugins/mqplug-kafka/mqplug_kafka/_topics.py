"""Administration of topics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_END, KafkaError, TopicPartition
from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

from mqplug import ConfigError, Error, Log, Position, TopicNotFound
from mqplug.spi import CreateTopic, TopicInfo
from mqplug_kafka._connection import KafkaConnection
from mqplug_kafka._errors import code_of
from mqplug_kafka._offsets import END, look_up

PAUSE = 0.02  # between two looks for a topic that is being made or deleted


def create(connection: KafkaConnection, action: CreateTopic, timeout: float) -> TopicInfo:
    """Create a topic. The option ``replication_factor`` is a number, all others are the topic's configuration."""
    end = time.monotonic() + timeout
    config = {key: str(value) for key, value in action.options.items() if key != "replication_factor"}
    if action.retention is not None:
        config["retention.ms"] = str(round(action.retention * 1000))
    replicas = action.options.get("replication_factor", -1)
    if not isinstance(replicas, int):
        raise ConfigError(f"replication_factor is a whole number, not {replicas!r}")
    topic = NewTopic(action.topic, num_partitions=action.partitions, replication_factor=replicas, config=config)
    connection.patient.ask(
        f"create topic {action.topic!r}",
        lambda left: connection.admin.create_topics([topic], request_timeout=left)[action.topic],
        timeout,
    )
    info = _until_described(connection, action.topic, end)
    look_up(connection, info.logs, END)(max(0.0, end - time.monotonic()))  # each partition has a leader
    return info


def _until_described(connection: KafkaConnection, topic: str, end: float) -> TopicInfo:
    """The controller made the topic; brokers hear of it a moment later."""
    while True:
        try:
            return connection.describe([topic], max(0.0, end - time.monotonic()))[topic]
        except TopicNotFound:
            if time.monotonic() >= end:
                raise
            time.sleep(PAUSE)


def delete(connection: KafkaConnection, topic: str, timeout: float) -> None:
    """Delete a topic, and wait until it is gone."""
    end = time.monotonic() + timeout
    connection.patient.ask(
        f"delete topic {topic!r}",
        lambda left: connection.admin.delete_topics([topic], request_timeout=left)[topic],
        timeout,
    )
    connection.forget(topic)
    while time.monotonic() < end:
        try:
            connection.describe([topic], max(0.0, end - time.monotonic()))
        except TopicNotFound:
            return
        time.sleep(PAUSE)


def names(connection: KafkaConnection, timeout: float) -> list[str]:
    """All topics but Kafka's own, whose names begin with two underscores."""
    listed = connection.worker.run(lambda: connection.admin.list_topics(timeout=max(timeout, 0.01)))
    return [name for name in connection.patient.wait("list topics", listed, timeout).topics if name[:2] != "__"]


def trim(connection: KafkaConnection, before: Mapping[Log, Position], timeout: float) -> None:
    """Delete records; a position beyond the end deletes all that is there."""
    end = time.monotonic() + timeout
    connection.check(before, timeout)
    wanted = [TopicPartition(log.topic, log.partition, to.coordinates[0]) for log, to in before.items()]
    asked = connection.admin.delete_records(wanted, request_timeout=max(timeout, 0.01))
    for each in wanted:
        left = max(0.0, end - time.monotonic())
        try:
            connection.patient.wait("trim", asked[each], left)
        except Error as error:
            if code_of(error) != KafkaError.OFFSET_OUT_OF_RANGE:
                raise
            everything = TopicPartition(each.topic, each.partition, OFFSET_END)
            again = connection.admin.delete_records([everything], request_timeout=max(left, 0.01))
            connection.patient.wait("trim", again[everything], left)
