"""RocksMQ: a durable message log inside the process, for mqplug.

``mqplug.connect("rocksmq", path="./mq")`` opens the store in that directory, and makes it where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    SymbolicStart,
    hookimpl,
)
from mqplug_rocksmq._settings import RocksMQSettings, from_url

if TYPE_CHECKING:
    from mqplug_rocksmq._connection import RocksMQConnection

__version__ = "0.1.0"
__all__ = ["RocksMQSettings"]

_CAPABILITIES = Capabilities(
    delete_topic=True, list_topics=True, groups=True, durable_groups=True, ordered=True, seek_time=True, trim=True,
    retention=True, null_payload=True, headers=True, keys=True, partitions=True, timestamps_producer=True,
    add_partitions=True, exclusive=True, pause_resume=True,
    individual_ack=True, cumulative_ack=True, commit=True, assignment_events=True, header_duplicates=True,
    idempotent_producer=True, batch_index=True, time_index=True, multi_client=True, persistent=True, exactly_once=True,
)  # fmt: skip


@hookimpl
def mqplug_describe() -> Descriptor:
    return Descriptor(name="rocksmq", settings=RocksMQSettings, capabilities=_CAPABILITIES, from_url=from_url)


@hookimpl
def mqplug_connect(settings: RocksMQSettings, timeout: float) -> RocksMQConnection:
    from mqplug_rocksmq._connection import connect

    return connect(settings, _CAPABILITIES, timeout)


@hookimpl
def mqplug_open_producer(connection: RocksMQConnection, options: ProducerOptions) -> ProducerDriver:
    return connection.open_producer()


@hookimpl
def mqplug_open_consumer(
    connection: RocksMQConnection, options: ConsumerOptions, listener: Listener, timeout: float
) -> ConsumerDriver:
    return connection.open_consumer(options, listener, timeout)


@hookimpl
def mqplug_resolve_start(
    connection: RocksMQConnection, start: SymbolicStart, logs: Sequence[Log]
) -> Mapping[Log, Position]:
    return connection.resolve(start, logs)


@hookimpl
def mqplug_move_group(
    connection: RocksMQConnection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    connection.move_group(group, positions, timeout)
    return True


@hookimpl
def mqplug_watermarks(
    connection: RocksMQConnection, logs: Sequence[Log], since: Mapping[Log, Position] | None
) -> Mapping[Log, Watermarks]:
    return connection.watermarks(logs, since or {})


@hookimpl
def mqplug_bounds(connection: RocksMQConnection, logs: Sequence[Log]) -> Mapping[Log, Bounds]:
    return connection.bounds(logs)


@hookimpl
def mqplug_administer(connection: RocksMQConnection, action: Action, timeout: float) -> Any:
    return connection.administer(action, timeout)
