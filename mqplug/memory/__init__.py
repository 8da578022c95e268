"""The memory backend: logs in this process, for tests and for trying things out.

``connect("memory")`` has a store of its own; ``connect("memory://name")`` shares one by name in the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from mqplug._errors import Unsupported
from mqplug._log import Log
from mqplug._position import Position
from mqplug._watermarks import Bounds, Watermarks
from mqplug.memory._drivers import MemoryConnection, MemoryConsumer, MemoryProducer
from mqplug.memory._store import open_store
from mqplug.spi import (
    Action,
    Capabilities,
    ConsumerOptions,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    Descriptor,
    GroupPosition,
    Listener,
    ListTopics,
    ProducerOptions,
    SymbolicStart,
    TopicInfo,
    Trim,
    Url,
    hookimpl,
)


@attrs.frozen(kw_only=True)
class MemorySettings:
    """``name`` chooses a store that the whole process shares."""

    name: str | None = None
    message_max_bytes: int = attrs.field(default=1_000_000, validator=attrs.validators.gt(0))


def _from_url(url: Url) -> Mapping[str, Any]:
    return {"name": url.hosts[0]} if url.hosts else {}


_CAPABILITIES = Capabilities(
    delete_topic=True, list_topics=True, groups=True, durable_groups=True, ordered=True, seek_time=True, trim=True,
    null_payload=True, headers=True, keys=True, partitions=True, timestamps_producer=True, individual_ack=True,
    cumulative_ack=True, commit=True, assignment_events=True, header_duplicates=True, idempotent_producer=True,
    batch_index=True, time_index=True, count_exact=True, multi_client=True, exactly_once=True,
)  # fmt: skip


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="memory", settings=MemorySettings, capabilities=_CAPABILITIES, from_url=_from_url)


@hookimpl
def mqplug_connect(settings: MemorySettings) -> MemoryConnection:
    capabilities = attrs.evolve(_CAPABILITIES, message_max_bytes=settings.message_max_bytes)
    return MemoryConnection(open_store(settings.name), capabilities)


@hookimpl
def mqplug_open_producer(connection: MemoryConnection, options: ProducerOptions) -> MemoryProducer:
    return MemoryProducer(connection.store)


@hookimpl
def mqplug_open_consumer(connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> MemoryConsumer:
    return MemoryConsumer(connection, options, listener)


@hookimpl
def mqplug_resolve_start(
    connection: MemoryConnection, start: SymbolicStart, logs: Sequence[Log]
) -> Mapping[Log, Position]:
    return connection.resolve(start, logs)


@hookimpl
def mqplug_move_group(connection: MemoryConnection, group: str, positions: Mapping[Log, GroupPosition]) -> bool:
    connection.move_group(group, positions)
    return True


@hookimpl
def mqplug_watermarks(
    connection: MemoryConnection, logs: Sequence[Log], since: Mapping[Log, Position] | None
) -> Mapping[Log, Watermarks]:
    return connection.watermarks(logs, since or {})


@hookimpl
def mqplug_bounds(connection: MemoryConnection, logs: Sequence[Log]) -> Mapping[Log, Bounds]:
    return connection.bounds(logs)


@hookimpl
def mqplug_administer(connection: MemoryConnection, action: Action) -> Any:
    store = connection.store
    with store.changed:
        match action:
            case CreateTopic(topic, partitions):
                return store.create(topic, partitions)
            case DeleteTopic(topic):
                store.delete(topic)
                store.changed.notify_all()
                return True
            case ListTopics():
                return store.names()
            case DescribeTopic(topic):
                return TopicInfo(topic, tuple(partition.log for partition in store.topic(topic)))
            case DescribeGroup(group, logs):
                return store.positions(group, logs)
            case Trim(before):
                for log, position in before.items():
                    store.partition(log).trim(position.coordinates[0])
                return True
            case _:
                raise Unsupported(type(action).__name__)
