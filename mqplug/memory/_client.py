"""A client for tests, with a store of its own, whose time can be advanced."""

from __future__ import annotations

import uuid
from typing import Literal, Self

from mqplug._client.client import Client
from mqplug._plugins.backend import Backend
from mqplug.memory import _hooks
from mqplug.memory._clock import Clock
from mqplug.memory._connection import MemoryConnection
from mqplug.memory._settings import MemorySettings


class MemoryClient(Client):
    """A client of a fresh memory store. As the fixture ``mq`` gives it, no idle wait takes time."""

    _memory: MemoryConnection

    @classmethod
    def fresh(cls, like: Literal["full", "kafka", "pulsar"] = "full") -> Self:
        """Open a store that no other client has."""
        settings = MemorySettings(name=uuid.uuid4().hex[:16], like=like)
        backend = Backend("memory", _hooks)
        connection = _hooks.mqplug_connect(settings)
        client = cls(backend, connection)
        client._memory = connection
        return client

    @property
    def clock(self) -> Clock:
        """The time in the store: ``mq.clock.advance(3600)``."""
        return self._memory.store.clock

    @property
    def url(self) -> str:
        """The URL with which code under test connects to the same store, while this client is open."""
        store = self._memory.store
        return f"memory://{store.name}?like={store.personality.name}"
