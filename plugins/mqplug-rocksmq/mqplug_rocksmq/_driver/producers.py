"""Producers of a store, and the sinks that they send into.

In ``UnsyncedProducer`` a send is done as soon as it is written. A sender that waits writes in its own thread: another
thread would gain nothing.

In ``SyncedProducer`` sends wait: for a sync to disk, or for the answer of the owner process. Messages of waiting
senders are collected while others are in progress, and are stored together afterwards: so many threads share a sync.
Its sink is the store of this process, or ``ResendingSink`` for the store of another one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from mqplug import Error, Log, OutcomeUnknown, PluginError
from mqplug.spi import Bell, Deadline, Run, Sending
from mqplug_rocksmq._driver.sends import (
    LINGER_S,
    MAX_COLLECTED_MESSAGES,
    RunSend,
    SingleSends,
    portions,
    sendings_by_partition,
)
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


LOOK_S: Final = 0.01


class StoppedSends:
    """Sends in order. Each raises ``WritesStopped``, and has done nothing then, or settles what it sends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def do(self, send: Callable[[], None]) -> None:
        """Send now, or behind those that wait. Never called by two threads at once."""
        with self._lock:
            if self._waiting:
                self._waiting.append(send)
                return
        try:
            send()
        except WritesStopped:
            self._waiting.append(send)
            threading.Thread(target=self._send_waiting, name="mqplug-rocksmq-sends", daemon=True).start()

    def _send_waiting(self) -> None:
        while True:
            with suppress(Error):  # a store that is closed meanwhile: the send finds out
                self._store.engine.await_writes(Deadline(None))
            with suppress(WritesStopped):
                self._waiting[0]()
                with self._lock:
                    self._waiting.popleft()
                    if not self._waiting:
                        return

    def wait(self, timeout: float) -> bool:
        """Return False if nothing waits. Else return in a moment."""
        if self._waiting:
            time.sleep(min(timeout, LOOK_S))
        return bool(self._waiting)


class SyncedProducer:
    """Sends to any topic of a store."""

    linger_s = LINGER_S

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writing = threading.RLock()  # held from the choice of messages until they are stored: none overtakes
        self._counting = threading.Lock()
        self._collected: list[Sending] = []
        self._in_progress = 0

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._counting:
            self._collected += sendings
            ready = len(self._collected) >= MAX_COLLECTED_MESSAGES or not self._in_progress
        if ready:
            self._write()

    def _write(self) -> None:
        with self._writing:
            with self._counting:
                sendings, self._collected = self._collected, []
                self._in_progress += 1
            for (topic, partition), together in sendings_by_partition(sendings):
                for portion in portions(together):
                    self._append(topic, partition, SingleSends(portion))
        self._arrived()

    def send_run(self, run: Run) -> None:
        """Store the columns of a batch as they are."""
        with self._writing:
            if self._collected:  # sent before
                self._write()
            self._append(run.topic, run.partition, RunSend(run))

    def _append(self, topic: str, partition: int, sends: SingleSends | RunSend) -> None:
        def settled(log: Log | None, first: int, error: Error | None, /) -> None:
            if log is not None and error is None:
                sends.stored(log, first)
            else:
                sends.give_up(error or OutcomeUnknown("the store reported neither an offset nor an error"))
            self._arrived()

        with self._counting:
            self._in_progress += 1
        try:
            self._sink.append(topic, partition, sends.bodies(), settled)
        except Error as error:
            sends.give_up(error)
            self._arrived()
        except Exception as error:  # noqa: BLE001 - a sender that gets no outcome would wait forever
            sends.give_up(PluginError(f"encoding messages for topic {topic!r} failed: {error!r}"))
            self._arrived()

    def _arrived(self) -> None:
        with self._counting:
            self._in_progress -= 1
            ready = not self._in_progress and bool(self._collected)
        self._sink.ring()
        if ready:
            self._write()

    def pump(self, timeout: float) -> None:
        if self._in_progress:
            self._sink.serve(timeout)

    def flush(self, timeout: float) -> None:
        if self._collected:
            self._write()

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self._sink.close(timeout)


class UnsyncedProducer:
    """Sends to any topic of the store."""

    linger_s = LINGER_S

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writing = threading.Lock()  # so that offsets are reported in the order of the sends
        self._stopped = StoppedSends(store)

    def store(self, sending: Sending) -> None:
        """Store a message."""
        with self._writing:
            self._append(sending.topic, sending.partition, SingleSends((sending,)))

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._writing:
            for (topic, partition), together in sendings_by_partition(sendings):
                self._append(topic, partition, SingleSends(together))

    def send_run(self, run: Run) -> None:
        """Store the columns of a run as they are."""
        with self._writing:
            self._append(run.topic, run.partition, RunSend(run))

    def _append(self, topic: str, partition: int, sends: SingleSends | RunSend) -> None:
        self._stopped.do(lambda: self._store_sends(topic, partition, sends))

    def _store_sends(self, topic: str, partition: int, sends: SingleSends | RunSend) -> None:
        try:
            described = self._store.topics.get(topic)
            log = partition_log(self._store.id, described, partition)
            first = self._store.append_bodies(described.logs[partition], sends.bodies())
        except WritesStopped:
            raise
        except Error as error:
            sends.give_up(error)
        except Exception as error:  # noqa: BLE001 - a sender that is never told would wait forever
            sends.give_up(PluginError(f"messages could not be encoded: {error!r}"))
        else:
            sends.stored(log, first)

    def pump(self, timeout: float) -> None:
        """Wait for a write under way in another thread, or for those that RocksDB does not take yet."""
        if not self._stopped.wait(timeout) and self._writing.acquire(timeout=timeout):
            self._writing.release()

    def flush(self, timeout: float) -> None:
        """Do nothing: what was sent is stored."""

    def close(self, timeout: float) -> None:
        """Do nothing: what was sent is stored."""
