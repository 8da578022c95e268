"""The memory backend: logs in this process, for tests and experiments.

``connect("memory")`` opens a new store. All clients of the process share the store ``memory://name``, which is
discarded when the last of them is closed. ``?like=kafka`` and ``?like=pulsar`` have the capabilities and quirks of
those backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqplug.memory._hooks import (
    MemorySettings,
    mqplug_administer as mqplug_administer,
    mqplug_bounds as mqplug_bounds,
    mqplug_connect as mqplug_connect,
    mqplug_describe as mqplug_describe,
    mqplug_move_group as mqplug_move_group,
    mqplug_open_consumer as mqplug_open_consumer,
    mqplug_open_producer as mqplug_open_producer,
    mqplug_open_stage as mqplug_open_stage,
    mqplug_open_transactions as mqplug_open_transactions,
    mqplug_resolve_start as mqplug_resolve_start,
    mqplug_watermarks as mqplug_watermarks,
)
from mqplug.memory._store import Clock, Store

if TYPE_CHECKING:
    from mqplug.memory._client import MemoryClient

__all__ = ["Clock", "MemoryClient", "MemorySettings", "Store"]


def __getattr__(name: str) -> Any:
    """Import ``MemoryClient`` on first use, because the backend itself needs no client."""
    if name != "MemoryClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mqplug.memory._client import MemoryClient

    return MemoryClient
