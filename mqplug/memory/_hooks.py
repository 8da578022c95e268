"""The hooks of the memory backend, as ``mqplug.spi`` specifies them for every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
from attrs.validators import gt, optional

from mqplug._model.errors import ConfigError
from mqplug._model.log import Log
from mqplug._model.position import Bounds, Position, Watermarks
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._consumer import FailoverConsumer, MemoryConsumer, MemorySharedConsumer
from mqplug.memory._personality import FULL, PERSONALITIES
from mqplug.memory._producer import MemoryProducer, MemoryStage, MemoryTransactions
from mqplug.memory._store import open_memory_store
from mqplug.spi import (
    Action,
    ConsumerDriver,
    ConsumerOptions,
    Descriptor,
    GroupPosition,
    Listener,
    ProducerDriver,
    ProducerOptions,
    StageDriver,
    SymbolicStart,
    TopicInfo,
    TransactionDriver,
    TransactionOptions,
    Url,
    hookimpl,
)


@attrs.frozen(kw_only=True)
class MemorySettings:
    """Settings of a memory store: ``name`` selects one that the whole process shares, ``like`` its personality.

    ``message_max_bytes`` is the size of the largest message (default: the personality's limit).
    """

    name: str | None = None
    like: Literal["full", "kafka", "pulsar"] = "full"
    message_max_bytes: int | None = attrs.field(default=None, validator=optional(gt(0)))


def _from_url(url: Url) -> Mapping[str, Any]:
    if len(url.hosts) > 1 or any(port is not None for _, port in url.hosts) or url.path.strip("/") or url.user:
        raise ConfigError("a memory URL must have one store name, no port, path or login", fix="Write memory://name")
    return {"name": url.hosts[0].host} if url.hosts else {}


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="memory", settings=MemorySettings, capabilities=FULL.capabilities, from_url=_from_url)


@hookimpl
def mqplug_connect(settings: MemorySettings) -> MemoryConnection:
    personality = PERSONALITIES[settings.like]
    capabilities = personality.capabilities
    if settings.message_max_bytes is not None:
        capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    return MemoryConnection(open_memory_store(settings.name, personality), capabilities)


@hookimpl
def mqplug_open_producer(connection: MemoryConnection, options: ProducerOptions) -> ProducerDriver:
    return MemoryProducer(connection.store)


@hookimpl
def mqplug_open_consumer(connection: MemoryConnection, options: ConsumerOptions, listener: Listener) -> ConsumerDriver:
    kind = MemoryConsumer
    if options.shares:
        kind = MemorySharedConsumer
    elif options.group is not None and connection.store.personality.takes_over:
        kind = FailoverConsumer
    return kind(connection, options, listener)


@hookimpl
def mqplug_open_stage(connection: MemoryConnection, topic: TopicInfo) -> StageDriver:
    return MemoryStage(connection.store, topic)


@hookimpl
def mqplug_open_transactions(connection: MemoryConnection, options: TransactionOptions) -> TransactionDriver:
    return MemoryTransactions(connection.store, options.name)


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
    return connection.administer(action)
