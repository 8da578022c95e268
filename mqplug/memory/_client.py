"""A client for tests, with its own memory store whose clock can be advanced."""

from __future__ import annotations

import uuid
from typing import Literal, Self

from mqplug._client.client import Client
from mqplug._plugins.backend import Backend
from mqplug.memory import _hooks
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._hooks import MemorySettings
from mqplug.memory._store import Clock


class MemoryClient(Client):
    """A client of a new memory store. If it comes from the fixture ``mq``, its idle waits take no time."""

    _memory: MemoryConnection

    @classmethod
    def fresh(cls, like: Literal["full", "kafka", "pulsar"] = "full") -> Self:
        """Open a new store that no other client uses."""
        settings = MemorySettings(name=uuid.uuid4().hex[:16], like=like)
        connection = _hooks.mqplug_connect(settings)
        client = cls(Backend("memory", _hooks).over(connection))
        client._memory = connection
        return client

    @property
    def clock(self) -> Clock:
        """The store's clock: ``mq.clock.advance(3600)``."""
        return self._memory.store.clock

    @property
    def url(self) -> str:
        """The URL of the same store, for code under test. Valid while this client is open."""
        store = self._memory.store
        return f"memory://{store.name}?like={store.personality.name}"
