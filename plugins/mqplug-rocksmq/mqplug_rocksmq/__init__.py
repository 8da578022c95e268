"""RocksMQ: a durable message log inside the process, for mqplug.

``mqplug.connect("rocksmq", path="./mq")`` opens the store in that directory, and creates it if it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mqplug import Bounds, Log, Position, Watermarks
from mqplug.spi import (
    Action,
    Capabilities,
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
    hookimpl,
)
from mqplug_rocksmq._settings import MAX_ACKED_RANGES, PLUGIN_VERSION, RocksMQSettings, from_url
from mqplug_rocksmq._store.statistics import RocksMQStatistics

if TYPE_CHECKING:
    from mqplug_rocksmq._driver.connection import StoreConnection
    from mqplug_rocksmq._processes.following_connection import FollowingConnection

    Connection: TypeAlias = StoreConnection | FollowingConnection

__version__ = PLUGIN_VERSION
__all__ = ["RocksMQSettings", "RocksMQStatistics"]

_CAPABILITIES = Capabilities(
    alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, groups=True, durable_groups=True,
    ordered=True, seek_time=True, trim=True, retention=True, null_payload=True, headers=True, keys=True,
    partitions=True, timestamps_producer=True, add_partitions=True, exclusive=True, shared=True, key_shared=True,
    nack=True, ack_timeout=True, pause_resume=True, individual_ack=True, cumulative_ack=True, commit=True,
    assignment_events=True, header_duplicates=True, idempotent_producer=True, batch_index=True, time_index=True,
    multi_client=True, multi_process=True, persistent=True, exactly_once=True, durable_delivery_count=True,
    staged_ingest=True, transactions=True, advance=True, acked_ranges_max=MAX_ACKED_RANGES,
)  # fmt: skip


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="rocksmq", settings=RocksMQSettings, capabilities=_CAPABILITIES, from_url=from_url)


@hookimpl
def mqplug_connect(settings: RocksMQSettings, timeout: float) -> Connection:
    from mqplug_rocksmq._processes.following_connection import connect

    return connect(settings, _CAPABILITIES, timeout)


@hookimpl
def mqplug_open_producer(connection: Connection, options: ProducerOptions, timeout: float) -> ProducerDriver:
    return connection.open_producer(timeout)


@hookimpl
def mqplug_open_consumer(
    connection: Connection, options: ConsumerOptions, listener: Listener, timeout: float
) -> ConsumerDriver:
    return connection.open_consumer(options, listener, timeout)


@hookimpl
def mqplug_open_stage(connection: Connection, topic: TopicInfo, timeout: float) -> StageDriver:
    return connection.open_stage(topic, timeout)


@hookimpl
def mqplug_open_transactions(connection: Connection, options: TransactionOptions, timeout: float) -> TransactionDriver:
    return connection.open_transactions(options, timeout)


@hookimpl
def mqplug_resolve_start(
    connection: Connection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    return connection.resolve(start, logs, timeout)


@hookimpl
def mqplug_move_group(
    connection: Connection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    connection.move_group(group, positions, timeout)
    return True


@hookimpl
def mqplug_watermarks(
    connection: Connection, logs: Sequence[Log], since: Mapping[Log, Position] | None, timeout: float
) -> Mapping[Log, Watermarks]:
    return connection.watermarks(logs, since or {}, timeout)


@hookimpl
def mqplug_bounds(connection: Connection, logs: Sequence[Log], timeout: float) -> Mapping[Log, Bounds]:
    return connection.bounds(logs, timeout)


@hookimpl
def mqplug_commands() -> Sequence[Any]:
    from mqplug_rocksmq._commands import commands

    return commands()


@hookimpl
def mqplug_administer(connection: Connection, action: Action, timeout: float) -> Any:
    return connection.administer(connection.settings.filled_in(action), timeout)
