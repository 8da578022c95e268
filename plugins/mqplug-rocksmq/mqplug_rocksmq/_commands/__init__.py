"""Operators' commands for a store: ``mqplug rocksmq COMMAND``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from click import Command


def commands() -> list[Command]:
    """Return all commands."""
    from mqplug_rocksmq._commands.care import backup, check, repair, restore
    from mqplug_rocksmq._commands.import_milvus import import_milvus
    from mqplug_rocksmq._commands.serve import serve
    from mqplug_rocksmq._commands.stats import compact, stats

    return [backup, check, compact, import_milvus, repair, restore, serve, stats]
