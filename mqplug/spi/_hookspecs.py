"""The hooks of a backend: describe it, connect to it, and open its drivers. No hook runs per message.

A backend implements the hooks that its capabilities need: ``mqplug_move_group`` goes with ``durable_groups``,
``mqplug_open_stage`` with ``staged_ingest``, ``mqplug_open_transactions`` with ``transactions``, and
``mqplug_commands`` is optional. An implementation names only the parameters that it needs. An extension wraps hooks:
see ``mqplug.spi.proxies``.
"""
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy

from mqplug._model.log import Log
from mqplug._model.position import Bounds, Position, Watermarks
from mqplug.spi._actions import (
    Action,
    ConsumerOptions,
    GroupPosition,
    ProducerOptions,
    SymbolicStart,
    TopicInfo,
    TransactionOptions,
)
from mqplug.spi._descriptor import Descriptor
from mqplug.spi._drivers import Connection, ConsumerDriver, Listener, ProducerDriver, StageDriver, TransactionDriver

hookspec = pluggy.HookspecMarker("mqplug")
hookimpl = pluggy.HookimplMarker("mqplug")


@hookspec(firstresult=True)
def mqplug_describe() -> Descriptor:  # type: ignore[empty-body]
    """Return the backend's name, settings and capabilities. Does no I/O and imports no client library."""


@hookspec(firstresult=True)
def mqplug_connect(settings: Any, timeout: float) -> Connection:  # type: ignore[empty-body]
    """Connect with these settings. Raise ``ConnectError`` for an unreachable, silent or foreign server."""


@hookspec(firstresult=True)
def mqplug_open_producer(connection: Connection, options: ProducerOptions, timeout: float) -> ProducerDriver:  # type: ignore[empty-body]
    """Open a producer. It sends to any topic of the connection."""


@hookspec(firstresult=True)
def mqplug_open_consumer(  # type: ignore[empty-body]
    connection: Connection, options: ConsumerOptions, listener: Listener, timeout: float
) -> ConsumerDriver:
    """Open a consumer. Without a group it holds all its logs at once, never calls the listener, and leaves no trace.

    With a group it joins, and calls the listener inside ``poll`` and ``tend``. The listener is a ``ListenerRelay``: an
    extension that wraps this hook may put a proxy before it.
    """


@hookspec(firstresult=True)
def mqplug_open_stage(connection: Connection, topic: TopicInfo, timeout: float) -> StageDriver:  # type: ignore[empty-body]
    """Open a stage for messages of one topic. Required if ``staged_ingest`` is declared."""


@hookspec(firstresult=True)
def mqplug_open_transactions(  # type: ignore[empty-body]
    connection: Connection, options: TransactionOptions, timeout: float
) -> TransactionDriver:
    """Take over a transaction name. Before this returns, fence its older holder, and abort its open transaction.

    Required if ``transactions`` is declared.
    """


@hookspec(firstresult=True)
def mqplug_resolve_start(  # type: ignore[empty-body]
    connection: Connection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> Mapping[Log, Position]:
    """Resolve a start to its current position in each log.

    ``AtTime`` later than all messages is the high that was read first. ``Latest`` is the high, which is also after the
    messages of open transactions. ``Last`` counts committed messages.
    """


@hookspec(firstresult=True)
def mqplug_move_group(  # type: ignore[empty-body]
    connection: Connection, group: str, positions: Mapping[Log, GroupPosition], timeout: float
) -> bool:
    """Move a group without members; raise ``ConsumerBusy`` if it has some. Return True."""


@hookspec(firstresult=True)
def mqplug_watermarks(  # type: ignore[empty-body]
    connection: Connection, logs: Sequence[Log], since: Mapping[Log, Position] | None, timeout: float
) -> Mapping[Log, Watermarks]:
    """Return the watermarks of each log, in as few round trips as possible.

    ``count`` is counted from low, or from ``since`` if it has the log. A log of a deleted topic raises
    ``TopicNotFound``.
    """


@hookspec(firstresult=True)
def mqplug_bounds(connection: Connection, logs: Sequence[Log], timeout: float) -> Mapping[Log, Bounds]:  # type: ignore[empty-body]
    """Return the first and the last retained id of each log, of committed messages only."""


@hookspec(firstresult=True)
def mqplug_administer(connection: Connection, action: Action, timeout: float) -> Any:
    """Perform one action on topics or groups. Raise ``unsupported(action)`` for an unknown one."""


@hookspec
def mqplug_commands() -> Sequence[Any]:  # type: ignore[empty-body]
    """Return Click commands for operators, which ``mqplug NAME COMMAND`` runs; NAME is the plugin's."""
