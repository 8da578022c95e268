"""Kafka for mqplug, through confluent-kafka, which is imported when a connection is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqplug import Bounds, Capabilities, Log, Position, Unsupported, Watermarks
from mqplug.spi import (
    Action,
    ConsumerDriver,
    ConsumerOptions,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    Descriptor,
    GroupPosition,
    Listener,
    ListTopics,
    ProducerDriver,
    ProducerOptions,
    SymbolicStart,
    Trim,
    hookimpl,
)
from mqplug_kafka._settings import KafkaSettings, check, from_url

if TYPE_CHECKING:
    from mqplug_kafka._connection import KafkaConnection

__all__ = ["KafkaSettings"]

_CAPABILITIES = Capabilities(
    delete_topic=True, list_topics=True, groups=True, durable_groups=True, ordered=True, seek_time=True, trim=True,
    retention=True, null_payload=True, headers=True, keys=True, partitions=True, timestamps_producer=True, auth=True,
    individual_ack=True, cumulative_ack=True, commit=True, assignment_events=True, header_duplicates=True,
    idempotent_producer=True, batch_index=True, time_index=True, multi_client=True, multi_node=True, persistent=True,
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
    check(settings)
    from mqplug_kafka._connection import KafkaConnection

    return KafkaConnection(settings, _CAPABILITIES, timeout)


@hookimpl
def mqplug_open_producer(connection: KafkaConnection, options: ProducerOptions) -> ProducerDriver:
    from mqplug_kafka._producer import KafkaProducer

    return KafkaProducer(connection, options)


@hookimpl
def mqplug_open_consumer(
    connection: KafkaConnection, options: ConsumerOptions, listener: Listener, timeout: float
) -> ConsumerDriver:
    if options.group is None:
        from mqplug_kafka._reader import Reader

        return Reader(connection, options)
    from mqplug_kafka._member import Member

    return Member(connection, options.group, options, listener, timeout)


@hookimpl
def mqplug_resolve_start(
    connection: KafkaConnection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    from mqplug_kafka._offsets import resolve

    return resolve(connection, start, logs, timeout)


@hookimpl
def mqplug_move_group(
    connection: KafkaConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    from mqplug_kafka._groups import move

    move(connection, group, positions, timeout)
    return True


@hookimpl
def mqplug_watermarks(
    connection: KafkaConnection, logs: Sequence[Log], since: Mapping[Log, Position] | None, timeout: float
) -> Mapping[Log, Watermarks]:
    from mqplug_kafka._offsets import watermarks

    return watermarks(connection, logs, since or {}, timeout)


@hookimpl
def mqplug_bounds(connection: KafkaConnection, logs: Sequence[Log], timeout: float) -> Mapping[Log, Bounds]:
    from mqplug_kafka._offsets import bounds

    return bounds(connection, logs, timeout)


@hookimpl
def mqplug_administer(connection: KafkaConnection, action: Action, timeout: float) -> Any:
    from mqplug_kafka import _groups, _topics

    match action:
        case CreateTopic():
            return _topics.create(connection, action, timeout)
        case DeleteTopic(topic):
            _topics.delete(connection, topic, timeout)
            return True
        case ListTopics():
            return _topics.names(connection, timeout)
        case DescribeTopic(topic):
            return connection.describe([topic], timeout)[topic]
        case DescribeGroup(group, logs):
            return _groups.stored(connection, group, logs, timeout)
        case Trim(before):
            _topics.trim(connection, before, timeout)
            return True
        case _:
            raise Unsupported(type(action).__name__)
