"""The consumer, with a group or without: one feed for each partition, and a queue of those that have messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

import mqplug
from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, Deadline, GroupPosition, Latest, Listener, Numbers
from mqplug_pulsar._admin import subscriptions
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.added_partitions import AddedPartitions
from mqplug_pulsar._consume.committer import Committer
from mqplug_pulsar._consume.partition_feed import PartitionFeed
from mqplug_pulsar._consume.unwanted_messages import drop_unwanted
from mqplug_pulsar._format import message_ids

ASSUMED_MESSAGE_BYTES = 16 * 1024  # turns prefetch_bytes into the length of a native queue, which counts messages
MAX_QUEUE_MESSAGES = 1000
CONNECTION_CHECK_S = 2.0  # between two checks whether topics still exist


class PulsarConsumer:
    """A consumer that reads its logs, with a group or without."""

    def __init__(
        self, connection: PulsarConnection, options: ConsumerOptions, listener: Listener, timeout: float
    ) -> None:
        self._connection = connection
        self._options = options
        self._listener = listener
        self._group = options.group
        # The same name on all partitions: the broker sorts members by it, and so distributes partitions evenly.
        self._name = f"mqplug-{uuid4().hex[:16]}"
        self._queue = max(
            1, min(MAX_QUEUE_MESSAGES, options.prefetch_bytes // ASSUMED_MESSAGE_BYTES // max(1, len(options.logs)))
        )
        self._ready: SimpleQueue[PartitionFeed | None] = SimpleQueue()
        self._paused: set[Log] = set()
        self._set_aside: dict[Log, PartitionFeed] = {}  # paused feeds that have messages
        self._committer = Committer(connection, self._group, self._name) if self._group is not None else None
        self._begin: dict[Log, GroupPosition] | None = None  # assigned, but not reported to the listener yet
        self._next_look = time.monotonic() + CONNECTION_CHECK_S
        self._feeds = self._open(timeout)
        self._growth = AddedPartitions(connection, options.logs, lambda log: self._opening(log, None)())

    def _open(self, timeout: float) -> dict[Log, PartitionFeed]:
        if self._group is None:
            if not isinstance(self._options.start, Mapping):
                raise TypeError("without a group, start must be a position for each log")
            return self._open_feeds(dict(self._options.start), timeout)
        deadline = Deadline(timeout)
        subscriptions.prepare_group(self._connection, self._options, timeout)
        feeds = self._open_feeds(dict.fromkeys(self._options.logs), deadline.remaining())
        try:
            self._begin = self._stored(self._group, deadline.remaining())
        except BaseException:
            self._close(feeds, max(1.0, deadline.remaining()))
            raise
        for log, begin in self._begin.items():
            feeds[log].floor = _inside_a_batch(begin.position)
        return feeds

    def _stored(self, group: str, timeout: float) -> dict[Log, GroupPosition]:
        """Return where reading begins, as far as it is known. The broker skips acked messages behind it."""
        begin = {log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in self._options.logs}
        if self._connection.admin is not None:
            stored = subscriptions.subscription_positions(self._connection, self._options.logs, group, timeout)
            begin |= {log: GroupPosition(each.position) for log, each in stored.items()}
        return begin

    # receiving ---------------------------------------------------------------------------------------------

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        self._tell()
        away = self._look() if timeout > 0 else None
        batches: list[Batch] = []
        feed = self._next_ready(timeout)
        while feed is not None:
            try:
                batch = self._batch(feed, most)
            except mqplug.Error as error:
                self._ready.put(feed)  # it will raise again
                if batches:
                    return batches
                error.at(topic=feed.log.topic)
                raise
            if batch is not None:
                batches.append(batch)
                most -= len(batch)
            feed = self._next_ready(0) if most > 0 else None
        if away is not None and not batches:
            raise mqplug.Timeout(
                f"the broker cannot be reached, the client tries again: {away.message}",
                fix="Check that the broker is up, or receive again",
            ) from away
        return batches

    def wake(self) -> None:
        self._ready.put(None)

    def tend(self, timeout: float) -> None:
        self._tell()

    def _tell(self) -> None:
        """Report new logs as assigned. Pulsar does not report the active member, so each member holds all logs."""
        if self._begin is not None:
            begin, self._begin = self._begin, None
            self._listener.assigned(begin)
        if self._group is not None and (opened := self._growth.opened()):
            self._feeds |= {log: self._feed(log, native, None) for log, native in opened.items()}
            self._listener.assigned({log: GroupPosition(Position(log, message_ids.LOG_BEGIN)) for log in opened})

    def _next_ready(self, timeout: float) -> PartitionFeed | None:
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

    def _batch(self, feed: PartitionFeed, most: int) -> Batch | None:
        """Return the messages of a feed that are to be delivered; None if there are none."""
        unacked = self._committer.unacked(feed.log) if self._committer is not None else None
        run = drop_unwanted(self._connection, feed, feed.take(min(most, MAX_QUEUE_MESSAGES)), unacked)
        if run is None:
            return None
        feed.wanted = message_ids.position_behind(run.coordinates()[-1], message_ids.detail(run.ids[-1]))
        if unacked is not None:
            unacked.add(run)
        return Batch(feed.log, Position(feed.log, feed.wanted), len(run.messages), run)

    def _look(self) -> mqplug.Error | None:
        """Check at intervals whether the topics exist: a native consumer of a deleted topic stays silent forever.

        Return the error if that cannot be checked now. The native client goes on by itself.
        """
        if time.monotonic() < self._next_look:
            return None
        self._next_look = time.monotonic() + CONNECTION_CHECK_S
        for topic in {log.topic for log, feed in self._feeds.items() if feed.closed or not feed.native.is_connected()}:
            try:
                self._connection.describe(topic, CONNECTION_CHECK_S)
            except (mqplug.Timeout, mqplug.ConnectError) as error:
                return error
            except mqplug.Error as error:
                error.at(topic=topic)  # one of several
                raise
        if closed := [log for log, feed in self._feeds.items() if feed.closed]:
            raise mqplug.ConnectError(f"the native client stopped reading {closed[0]!r}", fix="Open another consumer")
        return None

    def pause(self, logs: Sequence[Log]) -> None:
        """Deliver nothing of these logs. The native client fetches on until its queue is full."""
        self._paused |= set(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        for log in logs:
            self._paused.discard(log)
            if (feed := self._set_aside.pop(log, None)) is not None:
                self._ready.put(feed)

    # positions ---------------------------------------------------------------------------------------------

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        if missing := [log for log in positions if log not in self._feeds]:
            raise mqplug.NotAssigned(
                f"{missing[0]!r} is not held by this consumer",
                topic=missing[0].topic, fix="Seek logs that assignment() lists",
            )  # fmt: skip
        deadline = Deadline(timeout)
        if self._group is not None:
            self._move_cursors(self._group, positions, timeout)
            self._close({log: self._feeds[log] for log in positions}, deadline.remaining())
        fresh = self._open_feeds(dict(positions), deadline.remaining())
        old = {log: self._feeds[log] for log in positions}
        self._feeds |= fresh
        if self._group is None:
            self._close(old, max(1.0, deadline.remaining()))

    def _move_cursors(self, group: str, positions: Mapping[Log, Position], timeout: float) -> None:
        moves = {
            log: partial(subscriptions.move_cursor, self._connection, self._feeds[log].native, group, position, timeout)
            for log, position in positions.items()
        }
        self._connection.calls.each(moves, timeout)

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        if self._committer is not None:
            self._committer.commit(positions, timeout)

    def close(self, timeout: float) -> None:
        self._growth.stop()
        feeds, self._feeds = self._feeds, {}
        self._close(feeds, timeout)

    # native readers and consumers --------------------------------------------------------------------------

    def _open_feeds(self, positions: Mapping[Log, Position | None], timeout: float) -> dict[Log, PartitionFeed]:
        """Open native readers or consumers. If one cannot be opened, open none."""
        opened = self._connection.calls.each(
            {log: self._opening(log, position) for log, position in positions.items()}, timeout, discard=_close_native
        )
        return {log: self._feed(log, native, positions[log]) for log, native in opened.items()}

    def _feed(self, log: Log, native: Any, position: Position | None) -> PartitionFeed:
        feed = PartitionFeed(log, native, position.coordinates if position else None, self._ready.put)
        feed.floor = _inside_a_batch(position) if position and self._group is not None else None
        if self._committer is not None:
            self._committer.opened(log, native)
        return feed

    def _opening(self, log: Log, position: Position | None) -> Callable[[], Any]:
        if self._group is not None:
            return partial(
                subscriptions.subscribe, self._connection, log, self._group,
                latest=isinstance(self._options.start, Latest), queue=self._queue,
                member=self._name, mode=self._options.mode,
            )  # fmt: skip
        start: Numbers = position.coordinates if position is not None else message_ids.LOG_BEGIN
        return lambda: self._connection.reader(self._connection.native_topic(log), start, self._queue)

    def _close(self, feeds: Mapping[Log, PartitionFeed], timeout: float) -> None:
        with suppress(mqplug.Error):  # closes that the broker does not answer in time go on by themselves
            self._connection.calls.each({log: feed.close for log, feed in feeds.items()}, timeout)


def _inside_a_batch(position: Position) -> Numbers | None:
    return position.coordinates if position.coordinates[2] > 0 else None


def _close_native(native: Any) -> None:
    native.close()
