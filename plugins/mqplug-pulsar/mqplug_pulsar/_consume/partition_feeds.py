"""The partitions of a consumer: a feed for each, a queue of the feeds that have messages, and the paused feeds.

A feed is a reader or consumer of the client library, with the messages that have arrived from it. While none has
arrived, a thread waits for the next message, so that the consumer waits for all partitions at once. Once one has
arrived, the others are taken without waiting. The client prefetches up to the length of its queue.

The client's asynchronous receive would need no thread, but it does not keep the order: a message that arrives during
the call may be skipped, and is then received only after the next one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Generic, Protocol, TypeVar

import _pulsar

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, Numbers, weakly
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.received_messages import Received
from mqplug_pulsar._consume.topic_checks import TopicChecks
from mqplug_pulsar._format.note_texts import Skipped

Native = Any  # a pulsar.Reader or a pulsar.Consumer
R = TypeVar("R", bound=Received)
R_co = TypeVar("R_co", bound=Received, covariant=True)

NATIVE_WAIT_MS = 30_000  # a close ends the client's wait at once, if the client can close


class TakeNow(Protocol[R_co]):
    """Takes messages from the inner part of a client's reader or consumer, without waiting."""

    def __call__(self, native: Any, arrived: list[Any], most: int, /) -> tuple[R_co, int]:
        """Return up to ``most`` messages, beginning with the arrived ones, and the client's result code.

        The result is ``Ok`` if there may be more, ``Timeout`` if there are none, else why the reader became unusable.
        """
        ...


class PartitionFeed(Generic[R]):
    """Messages of one log, from a client's reader or consumer. One thread at a time takes them."""

    def __init__(
        self,
        log: Log,
        native: Native,
        wanted: Numbers | None,
        ready: Callable[[PartitionFeed[R]], None],
        take_now: TakeNow[R],
    ) -> None:
        self.log = log
        self.native = native
        self.wanted = wanted
        """The next coordinates to deliver; earlier messages are dropped. None if not known yet."""
        self.skipped: Skipped | None = None
        """The range that a group beyond the end skips: these messages are not delivered, but count as acked."""
        self.closed = False
        self.interrupted = False
        """Whether Ctrl-C lost messages on their way to the caller. Reopening the feed delivers them again."""
        self._kept: deque[R] = deque()
        self._arrived: list[Any] = []
        self._ready = ready
        self._take_now = take_now
        # The wrappers of pulsar.Reader and pulsar.Consumer would double the cost of the call.
        self._inner = getattr(native, "_reader", None) or native._consumer
        self._receive: Callable[[int], Any] = getattr(self._inner, "receive", None) or self._inner.read_next
        self._waiting = True  # True: only the thread receives messages; False: only the caller
        self._wait = Semaphore()
        Thread(target=self._run, name=f"mqplug-pulsar-{log.topic}-{log.partition}", daemon=True).start()

    def _run(self) -> None:
        while not self.closed:
            self._wait.acquire()
            if (message := self._next()) is not None:
                self._arrived.append(message)
                self._waiting = False
                self._ready(self)

    def _next(self) -> Any | None:
        """Wait for the next message and return it; None once the feed is closed."""
        while not self.closed:
            try:
                return self._receive(NATIVE_WAIT_MS)
            except _pulsar.Timeout:
                continue
            except _pulsar.PulsarException:
                self.closed = True
        return None

    def take(self, most: int) -> R | None:
        """Return up to ``most`` arrived messages. If there are no more, make the thread wait for the next one."""
        if self._kept:
            return self._take_kept(most)
        if self._waiting:
            return None
        arrived, self._arrived = self._arrived, []
        try:
            received, result = self._take_now(self._inner, arrived, most)
        except BaseException:
            self.interrupt()
            raise
        if result == _pulsar.Result.Ok.value:
            self._ready(self)
        elif result == _pulsar.Result.Timeout.value:
            self._waiting = True
            self._wait.release()
        else:
            self.closed = True
        return received if len(received) else None

    def _take_kept(self, most: int) -> R:
        received = self._kept.popleft()
        if len(received) > most:
            self._kept.appendleft(received.only(range(most, len(received))))
            received = received.only(range(most))
        self._ready(self)
        return received

    def put_back(self, received: R | None) -> None:
        """Return these messages again from the next ``take``, before all others."""
        if received is not None and len(received):
            self._kept.appendleft(received)
        self._ready(self)

    def interrupt(self) -> None:
        """Deliver nothing more: earlier messages may be lost."""
        self.interrupted = self.closed = True

    def close(self) -> None:
        """Close the client's reader or consumer, and drop the messages that have arrived."""
        self.closed = True
        self._wait.release()
        self._arrived = []
        with suppress(_pulsar.PulsarException, ValueError):  # already closed, with its client or by the broker
            self.native.close()


ASSUMED_MESSAGE_BYTES = 16 * 1024  # turns prefetch_bytes into the length of a client queue, which counts messages
MAX_QUEUE_MESSAGES = 1000
REOPEN_S = 5.0

Reopen = Callable[[Sequence[Log], float], None]
"""Continues to read logs from the positions of their feeds, through new feeds, within a timeout."""


def queue_length(options: ConsumerOptions, most: int = MAX_QUEUE_MESSAGES) -> int:
    """Return how many messages the client library may prefetch of each partition."""
    share = options.prefetch_bytes // ASSUMED_MESSAGE_BYTES // max(1, len(options.logs))
    return max(1, min(most, share))


class MessageFilter(Protocol[R]):
    """Decides which messages of a feed are delivered."""

    def take(self, feed: PartitionFeed[R], most: int, /) -> R | None:
        """Take up to ``most`` deliverable messages of a feed; None if there are none."""
        ...


class PartitionFeeds(Generic[R]):
    """The feeds of a consumer. One thread at a time polls."""

    def __init__(
        self, connection: PulsarConnection, take_now: TakeNow[R], message_filter: MessageFilter[R], reopen: Reopen
    ) -> None:
        self._connection = connection
        self._take_now = take_now
        self._filter = message_filter
        self._reopen = weakly(reopen)
        self._reopening = Lock()
        self._feeds: dict[Log, PartitionFeed[R]] = {}
        self._ready: SimpleQueue[PartitionFeed[R] | None] = SimpleQueue()
        self._paused: set[Log] = set()
        self._set_aside: dict[Log, PartitionFeed[R]] = {}  # paused feeds that have messages
        self._checks = TopicChecks(connection)

    def __contains__(self, log: Log) -> bool:
        return log in self._feeds

    @property
    def logs(self) -> list[Log]:
        """The logs that have a feed."""
        return list(self._feeds)

    def __getitem__(self, log: Log) -> PartitionFeed[R]:
        return self._feeds[log]

    def check_held(self, logs: Iterable[Log]) -> None:
        """Raise ``NotAssigned`` unless there is a feed for each log."""
        if missing := [log for log in logs if log not in self._feeds]:
            raise mqplug.NotAssigned(
                f"{missing[0]!r} is not held by this consumer",
                topic=missing[0].topic, fix="Seek logs that assignment() lists",
            )  # fmt: skip

    # receiving ---------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive. Raise if a topic is gone or no broker can be reached."""
        away = self._checks.outage(self._lost, self._repair) if timeout > 0 else None
        batches: list[Batch] = []
        before: list[tuple[PartitionFeed[R], Numbers | None]] = []  # where the feeds of these batches were
        try:
            self._collect(batches, before, most, timeout)
        except mqplug.Error:
            raise
        except BaseException:
            self._take_back(before)
            raise
        if away is not None and not batches:
            raise away
        return batches

    def _collect(
        self, batches: list[Batch], before: list[tuple[PartitionFeed[R], Numbers | None]], most: int, timeout: float
    ) -> None:
        feed = self._next_ready(timeout)
        while feed is not None:
            before.append((feed, feed.wanted))
            try:
                batch = self._batch(feed, most)
            except mqplug.Error as error:
                self._ready.put(feed)  # it will raise again
                if batches:
                    return
                error.at(topic=feed.log.topic)
                raise
            if batch is not None:
                batches.append(batch)
                most -= len(batch)
            feed = self._next_ready(0) if most > 0 else None

    def _take_back(self, before: Sequence[tuple[PartitionFeed[R], Numbers | None]]) -> None:
        """Make sure that messages that an interrupt kept from the caller are delivered again."""
        for feed, wanted in reversed(before):
            feed.wanted = wanted
            feed.interrupt()
        for feed in self._feeds.values():
            self._ready.put(feed)  # the interrupt may have removed one from the queue
        self._checks.hasten()

    def wake(self) -> None:
        """End a waiting poll."""
        self._ready.put(None)

    def pause(self, logs: Iterable[Log]) -> None:
        """Stop delivering these logs. The client library continues to fetch until its queue is full."""
        self._paused |= set(logs)

    def resume(self, logs: Iterable[Log]) -> None:
        """Deliver these logs again."""
        for log in logs:
            self._paused.discard(log)
            if (feed := self._set_aside.pop(log, None)) is not None:
                self._ready.put(feed)

    def _next_ready(self, timeout: float) -> PartitionFeed[R] | None:
        """Return a feed that has messages; None if no message arrives in time, or after ``wake``."""
        end = time.monotonic() + timeout
        while True:
            try:
                feed = self._ready.get(timeout > 0, max(0.0, end - time.monotonic()))
            except Empty:
                return None
            if feed is not None and feed.log in self._paused:
                self._set_aside[feed.log] = feed
            elif feed is None or not feed.closed:
                return feed

    def _batch(self, feed: PartitionFeed[R], most: int) -> Batch | None:
        run = self._filter.take(feed, min(most, MAX_QUEUE_MESSAGES))
        if run is None:
            return None
        feed.wanted = run.next_position
        return Batch(feed.log, Position(feed.log, feed.wanted), len(run), run)

    def _lost(self) -> set[str]:
        return {log.topic for log, feed in self._feeds.items() if feed.closed or not feed.native.is_connected()}

    def _repair(self) -> mqplug.Error | None:
        if any(feed.interrupted for feed in self._feeds.values()):
            self._connection.calls.run(self._reopen_interrupted, 2 * REOPEN_S)
        if closed := [log for log, feed in self._feeds.items() if feed.closed]:
            return mqplug.ConnectError(f"pulsar-client stopped reading {closed[0]!r}", fix="Open another consumer")
        return None

    def _reopen_interrupted(self) -> None:
        """Reopen interrupted feeds. Runs on a thread: no interrupt can leave a client's consumer without a feed."""
        with self._reopening:
            if interrupted := [log for log, feed in self._feeds.items() if feed.interrupted]:
                self._reopen(interrupted, REOPEN_S)

    # client readers and consumers --------------------------------------------------------------------------

    def open(self, openings: Mapping[Log, Callable[[], Any]], timeout: float) -> dict[Log, Any]:
        """Open client readers or consumers, and return them. If one cannot be opened, open none."""
        return self._connection.calls.each(openings, timeout, discard=_close_native)

    def add(self, log: Log, native: Any, position: Position | None = None) -> None:
        """Read a log through this client's reader or consumer. It replaces a former one, which is not closed."""
        wanted = None if position is None else position.coordinates
        self._feeds[log] = PartitionFeed(log, native, wanted, self._ready.put, self._take_now)

    def close(self, feeds: Iterable[PartitionFeed[R]], timeout: float) -> None:
        """Close these feeds."""
        with suppress(mqplug.Error):  # closes that the broker does not answer in time continue by themselves
            self._connection.calls.each({feed: feed.close for feed in feeds}, timeout)

    def keep_only(self, logs: Iterable[Log], timeout: float) -> None:
        """Close and remove the feeds of all other logs."""
        gone = [self._feeds.pop(log) for log in set(self._feeds).difference(logs)]
        self._paused.difference_update(feed.log for feed in gone)
        self.close(gone, timeout)

    def close_all(self, timeout: float) -> None:
        """Close and remove all feeds."""
        feeds, self._feeds = self._feeds, {}
        self.close(feeds.values(), timeout)
        with suppress(Empty):  # the queue and the feeds in it refer to each other
            while True:
                self._ready.get_nowait()


def _close_native(native: Any) -> None:
    native.close()
