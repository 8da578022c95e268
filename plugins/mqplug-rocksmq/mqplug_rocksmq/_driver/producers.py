"""Producers of a store, their sends, and the sinks that they send into.

Sends to one partition, single records or a run, are stored as pages and settled together.

In ``UnsyncedProducer`` a send is done as soon as it is written. A sender that waits writes in its own thread: another
thread would gain nothing.

In ``SyncedProducer`` sends wait: for a sync to disk, or for the answer of the owner process. Messages of waiting
senders are collected while others are in progress, and then stored together, so that many threads share a sync.
Its sink is the store of this process, or ``ResendingSink`` for the store of another one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, overload

from mqplug import Error, Log, OutcomeUnknown, PluginError
from mqplug.spi import Bell, Deadline, Numbers, ProducerDriver, Run, Sending
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._engine import clock
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._format.page import PageBody, PageColumns, encode_single, page_bodies
from mqplug_rocksmq._store.store import Store

LINGER_S: Final = 0.001  # how long messages that no sender waits for are collected, so that they share pages
MAX_COLLECTED_MESSAGES: Final = 1000  # stored together
PORTION_BYTES: Final = 1 << 20  # of single sends stored together
STOPPED_ROUND_S: Final = 0.01


def sendings_by_partition(sendings: Sequence[Sending]) -> Iterable[tuple[tuple[str, int], Sequence[Sending]]]:
    """Group sends by topic and partition."""
    logs: dict[tuple[str, int], list[Sending]] = {}
    for sending in sendings:
        logs.setdefault((sending.topic, sending.partition), []).append(sending)
    return logs.items()


def portions(sendings: Sequence[Sending]) -> Iterator[Sequence[Sending]]:
    """Cut the sends for one partition into portions that fit into a request to the store's owner."""
    first = size = 0
    for index, sending in enumerate(sendings):
        size += len(sending.value or b"")
        if size >= PORTION_BYTES:
            yield sendings[first : index + 1]
            first, size = index + 1, 0
    if first < len(sendings):
        yield sendings[first:]


class SingleSends:
    """Single sends to one partition."""

    __slots__ = ("_sendings",)

    def __init__(self, sendings: Sequence[Sending]) -> None:
        self._sendings = sendings

    def bodies(self) -> Iterable[PageBody]:
        """Return the sends as pages."""
        now, sendings = clock.now_ms(), self._sendings
        if len(sendings) == 1 and not sendings[0].headers:
            (one,) = sendings
            return [encode_single(now if one.timestamp is None else one.timestamp, one.key, one.value)]
        times = [now if sending.timestamp is None else sending.timestamp for sending in sendings]
        headers = [sending.headers for sending in sendings]
        values, keys = [sending.value for sending in sendings], [sending.key for sending in sendings]
        keyed = keys if keys.count(None) < len(keys) else None
        return page_bodies(PageColumns(times, values, keyed, headers if any(headers) else None))

    def stored(self, log: Log, first: int) -> None:
        """Report the sends as stored, from this offset on."""
        for offset, sending in enumerate(self._sendings, first):
            sending.stored(log, (offset,))

    def give_up(self, error: Error) -> None:
        """Report the sends as failed, or their outcome as unknown."""
        for sending in self._sendings:
            _give_up(sending, error)


class RunSend:
    """A batch for one partition."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def bodies(self) -> Iterable[PageBody]:
        """Return the batch as pages."""
        if arrays := self._run.arrow(("timestamp", "key", "value", "headers")):
            from mqplug_rocksmq._format.from_arrow_to_pages import arrow_page_bodies

            return arrow_page_bodies(arrays, clock.now_ms())
        return page_bodies(self.columns())

    def columns(self) -> PageColumns:
        """Return the batch as columns."""
        now, run = clock.now_ms(), self._run
        times = [now] * len(run)
        if run.timestamps is not None:
            times = [now if each is None else each for each in run.timestamps]
        return PageColumns(times, run.values, run.keys, run.headers, _ends(run))

    def stored(self, log: Log, first: int) -> None:
        """Report the batch as stored, from this offset on."""
        self._run.stored(log, OffsetRange(range(first, first + len(self._run))))

    def give_up(self, error: Error) -> None:
        """Report the batch as failed, or its outcome as unknown."""
        _give_up(self._run, error)


class OffsetRange(Sequence[Numbers]):
    """Consecutive offsets as coordinates, each created on access."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: range) -> None:
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Numbers: ...
    @overload
    def __getitem__(self, index: slice) -> OffsetRange: ...
    def __getitem__(self, index: int | slice) -> Numbers | OffsetRange:
        found = self._offsets[index]
        return OffsetRange(found) if isinstance(found, range) else (found,)

    def __iter__(self) -> Iterator[Numbers]:
        return zip(self._offsets, strict=False)


def _ends(run: Run) -> Sequence[int] | None:
    """Return where each value ends when all are joined, if the records have values only."""
    return run.ends if run.keys is None and run.headers is None else None


def _give_up(sent: Sending | Run, error: Error) -> None:
    if isinstance(error, OutcomeUnknown):
        sent.unknown(error)
    else:
        sent.failed(error)


class SendCallback(Protocol):
    """A callback for one send, called once: with the log and first offset of its stored messages, or with an error."""

    def __call__(self, log: Log | None, first: int, error: Error | None, /) -> None: ...


class Sink(Protocol):
    """Stores messages."""

    def append(self, topic: str, partition: int, bodies: Iterable[PageBody], settled: SendCallback) -> None:
        """Store pages, and call *settled* later. If this raises, nothing is stored, and *settled* is not called."""

    def serve(self, timeout: float) -> None:
        """Wait until pages are settled."""

    def ring(self) -> None:
        """End a wait in ``serve``: pages were settled."""

    def close(self, timeout: float) -> None:
        """Release the sink."""


class StoreSink:
    """Stores pages in the store of this process. Its committer settles them when they are on disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stopped = StoppedSends(store)
        self._news = Bell()
        self.ring = self._news.ring

    def append(self, topic: str, partition: int, bodies: Iterable[PageBody], settled: SendCallback) -> None:
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
            except Exception as error:  # noqa: BLE001 - a sender that gets no outcome would wait forever
                settled(None, 0, PluginError(f"encoding messages for topic {topic!r} failed: {error!r}"))

        self._stopped.do(append)

    def serve(self, timeout: float) -> None:
        self._news.wait(timeout)

    def close(self, timeout: float) -> None:
        """Do nothing: it holds nothing."""


class StoppedSends:
    """Sends in order. Each send settles its messages, or raises ``WritesStopped`` and has done nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def do(self, send: Callable[..., None], *args: Any) -> None:
        """Send now, or after the sends that wait. Only one thread may call at a time."""
        with self._lock:
            if self._waiting:
                self._waiting.append(partial(send, *args))
                return
        try:
            send(*args)
        except WritesStopped:
            self._waiting.append(partial(send, *args))
            threading.Thread(target=self._send_waiting, name="mqplug-rocksmq-sends", daemon=True).start()

    def _send_waiting(self) -> None:
        while True:
            with suppress(Error):  # if the store has been closed, the send reports it
                self._store.engine.await_writes(Deadline(None))
            with suppress(WritesStopped):
                self._waiting[0]()
                with self._lock:
                    self._waiting.popleft()
                    if not self._waiting:
                        return

    def wait(self, timeout: float) -> bool:
        """Return whether sends wait. If so, pause for a moment first."""
        if self._waiting:
            time.sleep(min(timeout, STOPPED_ROUND_S))
        return bool(self._waiting)


class SyncedProducer(ProducerDriver):
    """Sends to any topic of a store."""

    linger_s = LINGER_S

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writing = threading.RLock()  # held from the choice of messages until they are stored, to keep their order
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


class UnsyncedProducer(ProducerDriver):
    """Sends to any topic of the store."""

    linger_s = LINGER_S
    stores_at_once = True

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
        self._stopped.do(self._store_sends, topic, partition, sends)

    def _store_sends(self, topic: str, partition: int, sends: SingleSends | RunSend) -> None:
        try:
            described = self._store.topics.get(topic)
            log = partition_log(self._store.id, described, partition)
            first = self._store.append_bodies(described.logs[partition], sends.bodies())
        except WritesStopped:
            raise
        except Error as error:
            sends.give_up(error)
        except Exception as error:  # noqa: BLE001 - a sender that gets no outcome would wait forever
            sends.give_up(PluginError(f"messages could not be encoded: {error!r}"))
        else:
            sends.stored(log, first)

    def pump(self, timeout: float) -> None:
        """Wait for another thread's write, or for sends that RocksDB does not accept yet."""
        if not self._stopped.wait(timeout) and self._writing.acquire(timeout=timeout):
            self._writing.release()
