"""Sinks of producers: the store of this process. For a store of another process see ``_processes.resending``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mqplug import Error, Log
from mqplug.spi import Bell
from mqplug_rocksmq._driver.stopped_sends import StoppedSends
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._format.page import PageBody
from mqplug_rocksmq._store.store import Store


class SendCallback(Protocol):
    """Called once: with the log and the first offset of stored messages, or with an error."""

    def __call__(self, log: Log | None, first: int, error: Error | None, /) -> None: ...


class Sink(Protocol):
    """Stores messages."""

    def append(self, topic: str, partition: int, bodies: Sequence[PageBody], settled: SendCallback) -> None:
        """Store pages, and call *settled* later. If this raises, nothing is stored, and *settled* is not called."""

    def serve(self, timeout: float) -> None:
        """Wait until pages were settled."""

    def ring(self) -> None:
        """End a wait in ``serve``: pages were settled."""

    def close(self, timeout: float) -> None:
        """Release it."""


class StoreSink:
    """Stores pages in the store of this process. Its committer settles them when they are on disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stopped = StoppedSends(store)
        self._news = Bell()
        self.ring = self._news.ring

    def append(self, topic: str, partition: int, bodies: Sequence[PageBody], settled: SendCallback) -> None:
        described = self._store.topics.get(topic)
        log = partition_log(self._store.id, described, partition)

        def done(first: int, error: Error | None, /) -> None:
            settled(log, first, error)

        def append() -> None:
            try:
                self._store.append_bodies(described.logs[partition], bodies, done)
            except WritesStopped:
                raise
            except Error as error:
                settled(None, 0, error)

        self._stopped.do(append)

    def serve(self, timeout: float) -> None:
        self._news.wait(timeout)

    def close(self, timeout: float) -> None:
        """Do nothing: it holds nothing."""
