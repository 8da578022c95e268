"""The Kafka backend of mqplug: its hooks. They import confluent-kafka when a connection is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqplug import Bounds, Capabilities, Log, Position, Watermarks
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    ConsumerDriver,
    ConsumerOptions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeCluster,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    Descriptor,
    GroupPosition,
    Listener,
    ListGroups,
    ListTopics,
    ProducerDriver,
    ProducerOptions,
    SymbolicStart,
    TransactionDriver,
    TransactionOptions,
    Trim,
    hookimpl,
    unsupported,
)
from mqplug_kafka._admin.commit_metadata import MAX_RANGES
from mqplug_kafka._settings import KafkaSettings, from_url

if TYPE_CHECKING:
    from mqplug_kafka._cluster.connection import KafkaConnection

__all__ = ["KafkaSettings"]

_CAPABILITIES = Capabilities(
    alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, groups=True, durable_groups=True,
    ordered=True, seek_time=True, trim=True, retention=True, null_payload=True, headers=True, keys=True,
    partitions=True, timestamps_producer=True, auth=True, individual_ack=True, cumulative_ack=True, commit=True,
    assignment_events=True, header_duplicates=True, idempotent_producer=True, batch_index=True, time_index=True,
    multi_client=True, multi_node=True, persistent=True, add_partitions=True, pause_resume=True, multi_process=True,
    transactions=True, advance=True, acked_ranges_max=MAX_RANGES,
)  # fmt: skip


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(
        name="kafka",
        settings=KafkaSettings,
        capabilities=_CAPABILITIES,
        from_url=from_url,
        partitioners=frozenset({"murmur2"}),
    )


@hookimpl
def mqplug_connect(settings: KafkaSettings, timeout: float) -> KafkaConnection:
    from mqplug_kafka._cluster.connection import KafkaConnection

    return KafkaConnection(settings, _CAPABILITIES, timeout)


@hookimpl
def mqplug_open_producer(connection: KafkaConnection, options: ProducerOptions) -> ProducerDriver:
    from mqplug_kafka._produce.producer import KafkaProducer

    return KafkaProducer(connection)


@hookimpl
def mqplug_open_transactions(
    connection: KafkaConnection, options: TransactionOptions, timeout: float
) -> TransactionDriver:
    from mqplug_kafka._produce.transactions import KafkaTransactions

    return KafkaTransactions(connection, options, timeout)


@hookimpl
def mqplug_open_consumer(
    connection: KafkaConnection, options: ConsumerOptions, listener: Listener, timeout: float
) -> ConsumerDriver:
    if options.group is None:
        from mqplug_kafka._consume.reader import KafkaReader

        return KafkaReader(connection, options)
    from mqplug_kafka._consume.group_member import KafkaGroupMember

    return KafkaGroupMember(connection, options.group, options, listener, timeout)


@hookimpl
def mqplug_resolve_start(
    connection: KafkaConnection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    from mqplug_kafka._admin.log_offsets import resolve_start

    return resolve_start(connection, start, logs, timeout)


@hookimpl
def mqplug_move_group(
    connection: KafkaConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    from mqplug_kafka._admin.group_positions import move_group_positions

    move_group_positions(connection, group, positions, timeout)
    return True


@hookimpl
def mqplug_watermarks(
    connection: KafkaConnection, logs: Sequence[Log], since: Mapping[Log, Position] | None, timeout: float
) -> Mapping[Log, Watermarks]:
    from mqplug_kafka._admin.log_offsets import watermarks

    return watermarks(connection, logs, since or {}, timeout)


@hookimpl
def mqplug_bounds(connection: KafkaConnection, logs: Sequence[Log], timeout: float) -> Mapping[Log, Bounds]:
    from mqplug_kafka._admin.log_offsets import bounds

    return bounds(connection, logs, timeout)


@hookimpl
def mqplug_administer(connection: KafkaConnection, action: Action, timeout: float) -> Any:
    from mqplug_kafka._cluster.errors import naming_rights

    with naming_rights(action):
        return _administer(connection, action, timeout)


def _administer(connection: KafkaConnection, action: Action, timeout: float) -> Any:
    from mqplug_kafka._admin import group_positions, groups, topics

    match action:
        case CreateTopic():
            return topics.create(connection, action, timeout)
        case AlterTopic():
            return topics.alter(connection, action, timeout)
        case AddPartitions(topic, partitions):
            return topics.grow(connection, topic, partitions, timeout)
        case DeleteTopic(topic):
            topics.delete(connection, topic, timeout)
            return True
        case ListTopics():
            return topics.names(connection, timeout)
        case DescribeTopic(topic):
            return topics.describe(connection, topic, timeout)
        case DescribeTopics(names):
            found = connection.describe(names, timeout)
            return [found[name] for name in names]
        case DescribeGroup(group, logs):
            return group_positions.stored_group_positions(connection, group, logs, timeout)
        case DescribeGroupMembers(group):
            return groups.describe(connection, group, timeout)
        case ListGroups(topic):
            return groups.groups(connection, topic, timeout)
        case DeleteGroup(group):
            groups.delete(connection, group, timeout)
            return True
        case Trim(before):
            topics.trim(connection, before, timeout)
            return True
        case DescribeCluster():
            return connection.brokers(timeout)
        case _:
            raise unsupported(action)
