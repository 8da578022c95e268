"""Memory as a backend with the capabilities that a test chooses, which records the actions it receives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

import mqplug
from mqplug import memory
from mqplug.spi import Action, Capabilities, Connection, Descriptor, Ingest, Ingested, Staged, hookimpl, unsupported

STAGED = Staged("narrowed", "", "orders", 0, 0, "")


class NarrowedBackend:
    """The hooks of memory, with other capabilities and without some actions."""

    def __init__(self, changes: dict[str, bool | int], unknown: tuple[type, ...]) -> None:
        self.changes = changes
        self.unknown = unknown
        self.asked: list[Action] = []

    def declared(self, sound: Capabilities) -> Capabilities:
        return attrs.evolve(sound, **self.changes)

    @hookimpl
    def mqplug_describe(self) -> Descriptor:
        sound = memory.mqplug_describe()
        return attrs.evolve(sound, name="narrowed", capabilities=self.declared(sound.capabilities))

    @hookimpl
    def mqplug_connect(self, settings) -> Connection:
        connection = memory.mqplug_connect(settings)
        connection.capabilities = self.declared(connection.capabilities)
        return connection

    @hookimpl
    def mqplug_administer(self, connection, action):
        self.asked.append(action)
        if isinstance(action, self.unknown):
            raise unsupported(action)
        if isinstance(action, Ingest):  # STAGED was never staged
            return Ingested(0, {})
        return memory.mqplug_administer(connection, action)

    mqplug_open_producer = staticmethod(memory.mqplug_open_producer)
    mqplug_open_consumer = staticmethod(memory.mqplug_open_consumer)
    mqplug_open_stage = staticmethod(memory.mqplug_open_stage)
    mqplug_open_transactions = staticmethod(memory.mqplug_open_transactions)
    mqplug_resolve_start = staticmethod(memory.mqplug_resolve_start)
    mqplug_move_group = staticmethod(memory.mqplug_move_group)
    mqplug_watermarks = staticmethod(memory.mqplug_watermarks)
    mqplug_bounds = staticmethod(memory.mqplug_bounds)


@contextmanager
def narrowed(*unknown: type, **changes: bool | int) -> Iterator[tuple[mqplug.Client, list[Action]]]:
    """Open a client of memory with these capabilities changed, and the list of the actions that it receives."""
    backend = NarrowedBackend(changes, unknown)
    with mqplug.register("narrowed", backend), mqplug.connect("narrowed") as mq:
        yield mq, backend.asked
