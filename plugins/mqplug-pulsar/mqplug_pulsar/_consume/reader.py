"""The consumer without a group: native readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mqplug import Batch, Log, Position
from mqplug.spi import ConsumerOptions, Deadline, GroupPosition
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.partition_feed import PartitionFeed
from mqplug_pulsar._consume.partition_feeds import PartitionFeeds, queue_length
from mqplug_pulsar._consume.received_messages import Received
from mqplug_pulsar._consume.taking import taking_by_reader
from mqplug_pulsar._consume.undelivered import Undelivered
from mqplug_pulsar._consume.unwanted_messages import wanted_by_reader
from mqplug_pulsar._format import message_ids


class PulsarReader:
    """A consumer that holds all its logs from the start, and stores nothing at the broker."""

    def __init__(self, connection: PulsarConnection, options: ConsumerOptions, timeout: float) -> None:
        if not isinstance(options.start, Mapping):
            raise TypeError("without a group, start must be a position for each log")
        self._connection = connection
        self._queue = queue_length(options)
        self._feeds = PartitionFeeds(connection, taking_by_reader(connection.settings), self._receive, self._reopen)
        self._undelivered = Undelivered(connection)
        self._read_from({log: options.start[log] for log in options.logs}, timeout)

    def poll(self, most: int, timeout: float) -> Sequence[Batch]:
        """Return batches as they arrive."""
        batches = self._feeds.poll(most, timeout)
        if not batches and timeout > 0:
            feeds = (self._feeds[log] for log in self._feeds.logs)
            self._undelivered.check({feed.log: feed.wanted for feed in feeds if feed.wanted is not None})
        return batches

    def wake(self) -> None:
        """End a poll that waits."""
        self._feeds.wake()

    def tend(self, timeout: float) -> None:
        """Do nothing: a reader has no membership."""

    def pause(self, logs: Sequence[Log]) -> None:
        """Deliver nothing of these logs."""
        self._feeds.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Deliver these logs again."""
        self._feeds.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Read on from these positions, through new native readers."""
        self._feeds.check_held(positions)
        deadline = Deadline(timeout)
        old = [self._feeds[log] for log in positions]
        self._read_from(positions, timeout)
        self._feeds.close(old, max(1.0, deadline.remaining()))

    def _reopen(self, logs: Sequence[Log], timeout: float) -> None:
        self.seek({log: Position(log, self._feeds[log].wanted or message_ids.LOG_BEGIN) for log in logs}, timeout)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read these logs from now on."""
        deadline = Deadline(timeout)
        start = options.start if isinstance(options.start, Mapping) else {}
        self._queue = queue_length(options)
        self._feeds.keep_only(options.logs, deadline.remaining())
        self._read_from({log: start[log] for log in options.logs if log not in self._feeds}, deadline.remaining())

    def commit(self, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Do nothing: there is no group."""

    def close(self, timeout: float) -> None:
        """Close the native readers."""
        self._feeds.close_all(timeout)

    def _read_from(self, positions: Mapping[Log, Position], timeout: float) -> None:
        readers = {log: partial(self._open, log, position) for log, position in positions.items()}
        for log, native in self._feeds.open(readers, timeout).items():
            self._feeds.add(log, native, positions[log])

    def _open(self, log: Log, position: Position) -> object:
        return self._connection.reader(self._connection.native_topic(log), position.coordinates, self._queue)

    def _receive(self, feed: PartitionFeed[Received], most: int) -> Received | None:
        received = feed.take(most)
        return None if received is None else wanted_by_reader(self._connection, feed, received)
