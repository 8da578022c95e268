"""The Apache Pulsar backend of mqplug: ``mqplug.connect("pulsar://host:6650?admin_url=http://host:8080")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqplug import Bounds, Log, Position, Watermarks
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    Capabilities,
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
    ProducerOptions,
    SymbolicStart,
    hookimpl,
    unsupported,
)
from mqplug_pulsar._cluster.errors import CONSUME, EITHER, RIGHT_OF, naming_right
from mqplug_pulsar._settings import PulsarSettings, from_url

if TYPE_CHECKING:
    from mqplug_pulsar._cluster.connection import PulsarConnection
    from mqplug_pulsar._consume.group_member import PulsarGroupMember
    from mqplug_pulsar._consume.reader import PulsarReader
    from mqplug_pulsar._consume.shared_member import PulsarSharedMember
    from mqplug_pulsar._produce.producer import PulsarProducer

__all__ = ["PulsarSettings"]

_CAPABILITIES = Capabilities(
    alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, groups=True, durable_groups=True,
    ordered=True, seek_time=True, retention=True, null_payload=True, headers=True, keys=True, partitions=True,
    timestamps_producer=True, auth=True, individual_ack=True, ack_granularity="entry", cumulative_ack=True, commit=True,
    header_duplicates=True, batch_index=True, time_index=True, multi_client=True, multi_node=True, persistent=True,
    add_partitions=True, exclusive=True, pause_resume=True, multi_process=True, shared=True, key_shared=True,
    nack=True, ack_timeout=True,
    message_max_bytes=5 * 1024 * 1024 - 10 * 1024, header_max_bytes=1024 * 1024,
)  # fmt: skip


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(
        name="pulsar", settings=PulsarSettings, capabilities=_CAPABILITIES, from_url=from_url,
        schemes=frozenset({"pulsar+ssl"}),
    )  # fmt: skip


# The first call that needs pulsar-client imports it; this module does not.


@hookimpl
def mqplug_connect(settings: PulsarSettings, timeout: float) -> PulsarConnection:
    from mqplug_pulsar._cluster.connection import connect

    return connect(settings, _CAPABILITIES, timeout)


@hookimpl
def mqplug_open_producer(connection: PulsarConnection, options: ProducerOptions) -> PulsarProducer:
    from mqplug_pulsar._produce.producer import PulsarProducer

    return PulsarProducer(connection)


@hookimpl
@naming_right(CONSUME)
def mqplug_open_consumer(
    connection: PulsarConnection, options: ConsumerOptions, listener: Listener, timeout: float
) -> PulsarReader | PulsarGroupMember | PulsarSharedMember:
    from mqplug_pulsar._consume.group_member import PulsarGroupMember
    from mqplug_pulsar._consume.reader import PulsarReader
    from mqplug_pulsar._consume.shared_member import PulsarSharedMember

    if options.group is None:
        return PulsarReader(connection, options, timeout)
    if options.shares:
        return PulsarSharedMember(connection, options.group, options, listener, timeout)
    return PulsarGroupMember(connection, options.group, options, listener, timeout)


@hookimpl
@naming_right(CONSUME)
def mqplug_resolve_start(
    connection: PulsarConnection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    from mqplug_pulsar._admin.log_positions import start_positions

    return start_positions(connection, start, logs, timeout)


@hookimpl
@naming_right(CONSUME)
def mqplug_move_group(
    connection: PulsarConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    from mqplug_pulsar._admin.subscriptions import move_subscriptions

    move_subscriptions(connection, group, positions, timeout)
    return True


@hookimpl
def mqplug_watermarks(
    connection: PulsarConnection, logs: Sequence[Log], since: Mapping[Log, Position] | None, timeout: float
) -> Mapping[Log, Watermarks]:
    from mqplug_pulsar._admin.log_positions import watermarks

    with naming_right(CONSUME if connection.admin is None else EITHER):
        return watermarks(connection, logs, since or {}, timeout)


@hookimpl
@naming_right(CONSUME)
def mqplug_bounds(connection: PulsarConnection, logs: Sequence[Log], timeout: float) -> Mapping[Log, Bounds]:
    from mqplug_pulsar._admin.log_positions import bounds

    return bounds(connection, logs, timeout)


@hookimpl
def mqplug_administer(connection: PulsarConnection, action: Action, timeout: float) -> Any:
    with naming_right(RIGHT_OF.get(type(action))):
        return _administer(connection, action, timeout)


def _administer(connection: PulsarConnection, action: Action, timeout: float) -> Any:
    from mqplug_pulsar._admin import groups, subscriptions, topic_patterns, topics

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
        case ListTopics(str(pattern)):
            return topic_patterns.candidates(connection, pattern, timeout)
        case ListTopics():
            return topics.names(connection, timeout)
        case DescribeTopic(topic):
            return topics.describe(connection, topic, timeout)
        case DescribeTopics(names):
            return topics.describe_all(connection, names, timeout)
        case DescribeGroup(group, logs):
            return subscriptions.subscription_positions(connection, logs, group, timeout)
        case DescribeGroupMembers(group):
            return groups.describe_group(connection, group, timeout)
        case ListGroups(topic):
            return groups.list_groups(connection, topic, timeout)
        case DeleteGroup(group):
            groups.delete_group(connection, group, timeout)
            return True
        case DescribeCluster():
            return connection.describe_cluster(timeout)
        case _:
            raise unsupported(action)
