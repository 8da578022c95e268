"""Where a producer's messages go: into the store of this process, or to whoever has it (``_processes.resending``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mqplug import Error, Log
from mqplug.spi import Bell
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._format.page import PageBody
from mqplug_rocksmq._store.store import Store


class SendCallback(Protocol):
    """Called once: messages lie in this log from this offset on, or an error says why they may not."""

    def __call__(self, log: Log | None, first: int, error: Error | None, /) -> None: ...


class Sink(Protocol):
    """Stores messages."""

    def append(self, topic: str, partition: int, bodies: Sequence[PageBody], settled: SendCallback) -> None:
        """Have pages stored. What is raised was not stored, and *settled* is not called."""

    def serve(self, timeout: float) -> None:
        """Wait until something was settled."""

    def ring(self) -> None:
        """Something was settled: end what waits in ``serve``."""

    def close(self, timeout: float) -> None:
        """Let go."""


class StoreSink:
    """Into the store of this process, whose committer says when they are on disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._news = Bell()
        self.ring = self._news.ring

    def append(self, topic: str, partition: int, bodies: Sequence[PageBody], settled: SendCallback) -> None:
        described = self._store.topics.get(topic)
        log = partition_log(self._store.id, described, partition)
        self._store.append_bodies(described.logs[partition], bodies, lambda first, error: settled(log, first, error))

    def serve(self, timeout: float) -> None:
        self._news.wait(timeout)

    def close(self, timeout: float) -> None:
        """Nothing is held."""
