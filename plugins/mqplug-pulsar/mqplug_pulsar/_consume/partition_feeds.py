"""The partitions of a consumer: one feed for each, a queue of those that have messages, and those that are paused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, Numbers
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.partition_feed import PartitionFeed, R, TakeNow
from mqplug_pulsar._consume.topic_checks import TopicChecks

ASSUMED_MESSAGE_BYTES = 16 * 1024  # turns prefetch_bytes into the length of a native queue, which counts messages
MAX_QUEUE_MESSAGES = 1000
REOPEN_S = 5.0

Receive = Callable[[PartitionFeed[R], int], R | None]
"""Returns up to so many messages of a feed that are to be delivered; None if there are none."""
Reopen = Callable[[Sequence[Log], float], None]
"""Reads logs on from where their feeds are, in a time, through new feeds."""


def queue_length(options: ConsumerOptions, most: int = MAX_QUEUE_MESSAGES) -> int:
    """Return how many messages the native client may prefetch of each partition."""
    share = options.prefetch_bytes // ASSUMED_MESSAGE_BYTES // max(1, len(options.logs))
    return max(1, min(most, share))


class PartitionFeeds(Generic[R]):
    """The feeds of a consumer. One thread at a time polls."""

    def __init__(self, connection: PulsarConnection, take_now: TakeNow[R], receive: Receive[R], reopen: Reopen) -> None:
        self._connection = connection
        self._take_now = take_now
        self._receive = receive
        self._reopen = reopen
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
        """Return batches as they arrive. Raise if a topic is gone, or no broker can be reached."""
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
        """Have messages delivered again that an interrupt kept from the caller."""
        for feed, wanted in reversed(before):
            feed.wanted = wanted
            feed.interrupt()
        for feed in self._feeds.values():
            self._ready.put(feed)  # one may just have left the queue
        self._checks.hasten()

    def wake(self) -> None:
        """End a poll that waits."""
        self._ready.put(None)

    def pause(self, logs: Iterable[Log]) -> None:
        """Deliver nothing of these logs. The native client fetches on until its queue is full."""
        self._paused |= set(logs)

    def resume(self, logs: Iterable[Log]) -> None:
        """Deliver these logs again."""
        for log in logs:
            self._paused.discard(log)
            if (feed := self._set_aside.pop(log, None)) is not None:
                self._ready.put(feed)

    def _next_ready(self, timeout: float) -> PartitionFeed[R] | None:
        """Return a feed that has messages; None if none has in time, or when woken."""
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
        run = self._receive(feed, min(most, MAX_QUEUE_MESSAGES))
        if run is None:
            return None
        feed.wanted = run.behind
        return Batch(feed.log, Position(feed.log, feed.wanted), len(run), run)

    def _lost(self) -> set[str]:
        return {log.topic for log, feed in self._feeds.items() if feed.closed or not feed.native.is_connected()}

    def _repair(self) -> mqplug.Error | None:
        if any(feed.interrupted for feed in self._feeds.values()):
            self._connection.calls.run(self._reopen_interrupted, 2 * REOPEN_S)
        if closed := [log for log, feed in self._feeds.items() if feed.closed]:
            return mqplug.ConnectError(f"the native client stopped reading {closed[0]!r}", fix="Open another consumer")
        return None

    def _reopen_interrupted(self) -> None:
        """Run on a thread: no interrupt reaches it, so that none leaves a native consumer without a feed."""
        with self._reopening:
            if interrupted := [log for log, feed in self._feeds.items() if feed.interrupted]:
                self._reopen(interrupted, REOPEN_S)

    # native readers and consumers --------------------------------------------------------------------------

    def open(self, openings: Mapping[Log, Callable[[], Any]], timeout: float) -> dict[Log, Any]:
        """Open native readers or consumers, and return them. If one cannot be opened, open none."""
        return self._connection.calls.each(openings, timeout, discard=_close_native)

    def add(self, log: Log, native: Any, position: Position | None = None) -> None:
        """Read a log through this native reader or consumer. It takes the place of another one, which is not closed."""
        wanted = None if position is None else position.coordinates
        self._feeds[log] = PartitionFeed(log, native, wanted, self._ready.put, self._take_now)

    def close(self, feeds: Iterable[PartitionFeed[R]], timeout: float) -> None:
        """Close these feeds."""
        with suppress(mqplug.Error):  # closes that the broker does not answer in time go on by themselves
            self._connection.calls.each({feed: feed.close for feed in feeds}, timeout)

    def keep_only(self, logs: Iterable[Log], timeout: float) -> None:
        """Close the feeds of other logs, and hold them no more."""
        gone = [self._feeds.pop(log) for log in set(self._feeds).difference(logs)]
        self._paused.difference_update(feed.log for feed in gone)
        self.close(gone, timeout)

    def close_all(self, timeout: float) -> None:
        """Close the feeds, and hold none any more."""
        feeds, self._feeds = self._feeds, {}
        self.close(feeds.values(), timeout)


def _close_native(native: Any) -> None:
    native.close()
