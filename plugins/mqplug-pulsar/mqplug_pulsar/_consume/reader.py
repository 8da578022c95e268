"""The consumer without a group: readers of the client library.

It detects messages that never arrive: those that retention removed and Pulsar silently skips, and stored ones that the
client never delivers, where a reader would wait forever.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain, takewhile
from operator import le

import mqplug
from mqplug import Batch, Log, Position, PositionLost
from mqplug.spi import ConsumerDriver, ConsumerOptions, Deadline, Numbers
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._cluster.admin_interface import AdminInterface, topic_path
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._consume.partition_feeds import PartitionFeed, PartitionFeeds, TakeNow, queue_length
from mqplug_pulsar._consume.received_messages import Received, take_by_reader
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._settings import PulsarSettings


class PulsarReader(ConsumerDriver):
    """A consumer that holds all its logs from the start, and stores nothing at the broker."""

    def __init__(self, connection: PulsarConnection, options: ConsumerOptions, timeout: float) -> None:
        if not isinstance(options.start, Mapping):
            raise TypeError("without a group, start must be a position for each log")
        self._connection = connection
        self._queue = queue_length(options)
        self._feeds = PartitionFeeds(connection, _taking(connection.settings), ReaderFilter(connection), self._reopen)
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
        """End a waiting poll."""
        self._feeds.wake()

    def pause(self, logs: Sequence[Log]) -> None:
        """Stop delivering these logs."""
        self._feeds.pause(logs)

    def resume(self, logs: Sequence[Log]) -> None:
        """Deliver these logs again."""
        self._feeds.resume(logs)

    def seek(self, positions: Mapping[Log, Position], timeout: float) -> None:
        """Continue from these positions, through new client readers."""
        self._feeds.check_held(positions)
        deadline = Deadline(timeout)
        old = [self._feeds[log] for log in positions]
        self._read_from(positions, timeout)
        self._feeds.close(old, max(1.0, deadline.remaining()))

    def _reopen(self, logs: Sequence[Log], timeout: float) -> None:
        self.seek({log: Position(log, self._feeds[log].wanted or message_ids.LOG_BEGIN) for log in logs}, timeout)

    def follow(self, options: ConsumerOptions, timeout: float) -> None:
        """Read exactly these logs from now on."""
        deadline = Deadline(timeout)
        start = options.start if isinstance(options.start, Mapping) else {}
        self._queue = queue_length(options)
        self._feeds.keep_only(options.logs, deadline.remaining())
        self._read_from({log: start[log] for log in options.logs if log not in self._feeds}, deadline.remaining())

    def close(self, timeout: float) -> None:
        """Close the client's readers."""
        self._feeds.close_all(timeout)

    def _read_from(self, positions: Mapping[Log, Position], timeout: float) -> None:
        readers = {log: partial(self._open, log, position) for log, position in positions.items()}
        for log, native in self._feeds.open(readers, timeout).items():
            self._feeds.add(log, native, positions[log])

    def _open(self, log: Log, position: Position) -> object:
        return self._connection.reader(self._connection.native_topic(log), position.coordinates, self._queue)


def _taking(settings: PulsarSettings) -> TakeNow[Received]:
    """Return the function that takes messages, from the compiled part or the plain path."""
    if compiled_part.find(settings, "reads") is None:
        return take_by_reader
    from mqplug_pulsar._consume.compiled_reading import take_rows

    return take_rows


LEDGERS_TIMEOUT_S = 10.0


class ReaderFilter:
    """Drops messages before the position of a reader, and finds the gaps that retention leaves."""

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection

    def take(self, feed: PartitionFeed[Received], most: int) -> Received | None:
        """Return messages to deliver, ascending. Raise ``PositionLost`` for a gap."""
        received = feed.take(most)
        if received is None:
            return None
        runs = received.runs
        wanted = feed.wanted or message_ids.LOG_BEGIN
        ledger = runs[0].first[0]
        if ledger > wanted[0] > 0:
            self._check_gap(feed, wanted, received)
        if runs[-1].first[0] != ledger:  # messages of another ledger are checked the next time
            turn = sum(run.size for run in takewhile(lambda run: run.first[0] == ledger, runs))
            feed.put_back(received.only(range(turn, len(received))))
            received = received.only(range(turn))
            runs = received.runs
        if all(map(le, chain([wanted], (run.next_position for run in runs)), (run.first for run in runs))):
            return received
        rows = []
        for row, place in enumerate(received.coordinates()):
            if place >= wanted:
                rows.append(row)
                wanted = (*place[:2], place[2] + 1)
        return received.only(rows) if rows else None

    def _check_gap(self, feed: PartitionFeed[Received], wanted: Numbers, received: Received) -> None:
        """Raise ``PositionLost`` for a gap, which Pulsar silently skips. A gap can only lie between two ledgers."""
        try:
            ask = partial(self._connection.ledgers, feed.log, LEDGERS_TIMEOUT_S)
            low = self._connection.calls.run(ask, LEDGERS_TIMEOUT_S).low
        except mqplug.Error:
            feed.put_back(received)
            raise
        if wanted < low:
            feed.put_back(received)
            raise PositionLost(
                f"retention removed messages after {Position(feed.log, wanted)!r}: the log begins at {low}",
                log=feed.log, low=Position(feed.log, low), topic=feed.log.topic,
            )  # fmt: skip


FIRST_LOOK_S, LAST_LOOK_S = 1.0, 60.0  # waits between two looks at a silent log: they double from the first to the last
LOOK_TIMEOUT_S = 10.0
MAX_DROPPED = 1000  # messages that one look may skip


class Undelivered:
    """Finds undelivered messages on logs that a reader gets nothing from. Needs the admin interface.

    The client drops a message whose value is None or empty if it was sent without a batch and compressed with zlib. It
    holds back messages that are encrypted end to end.
    """

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._waits: dict[Log, tuple[Numbers, float, float]] = {}  # where a log waits, when to look, and the next pause
        self._looks: dict[Log, Future[mqplug.Error | None]] = {}

    def check(self, wanted: Mapping[Log, Numbers]) -> None:
        """Raise the error for an undelivered message at one of these positions, if found. Never wait for the broker."""
        admin = self._connection.admin
        if admin is None:
            return
        now = time.monotonic()
        for log, place in wanted.items():
            at, due, pause = self._waits.get(log, ((), 0.0, 0.0))
            if at != place:
                self._waits[log] = (place, now + FIRST_LOOK_S, FIRST_LOOK_S)
                self._looks.pop(log, None)
            elif log in self._looks:
                self._raise_found(log)
            elif now >= due:
                self._waits[log] = (place, now + pause, min(2 * pause, LAST_LOOK_S))
                self._looks[log] = self._connection.calls.start(
                    lambda log=log, place=place: _look(self._connection, admin, log, place)  # type: ignore[misc]
                )

    def _raise_found(self, log: Log) -> None:
        if not self._looks[log].done():
            return
        look = self._looks.pop(log)
        found = look.result() if look.exception() is None else None  # the next look may succeed
        if found is not None:
            raise found


def _look(connection: PulsarConnection, admin: AdminInterface, log: Log, place: Numbers) -> mqplug.Error | None:
    """Return the error for the message at a position; None if the message will come."""
    ledger, entry, index = message_ids.start_of(place)
    deadline = Deadline(LOOK_TIMEOUT_S)
    ledgers = connection.ledgers(log, LOOK_TIMEOUT_S)
    at = first = ledgers.entry_at(ledger, entry)
    if index > 0 or (*first, -1) < ledgers.low:
        return None
    path = topic_path(connection.native_topic(log))
    for _ in range(MAX_DROPPED):
        if (*at, -1) >= ledgers.high:
            break
        headers = admin.headers(f"{path}/ledger/{at[0]}/entry/{at[1]}", max(0.1, deadline.remaining()))
        if at == first and headers.get("X-Pulsar-Is-Encrypted") == "true":
            return mqplug.Error(
                f"the message {at[0]}:{at[1]} is encrypted end to end, and this client has no key for it",
                topic=log.topic, fix="Read the topic with a client that has the key",
            )  # fmt: skip
        if not _is_dropped(headers):
            break
        at = ledgers.entry_at(at[0], at[1] + 1)
    if at == first:
        return None
    return PositionLost(
        f"pulsar-client drops the message {first[0]}:{first[1]}: its value is None or empty, and it was sent without a "
        "batch and with zlib",
        log=log, low=Position(log, (*at, -1)), passable=True, topic=log.topic,
    )  # fmt: skip


def _is_dropped(headers: Mapping[str, str]) -> bool:
    return (
        headers.get("X-Pulsar-compression") == "ZLIB"
        and headers.get("X-Pulsar-uncompressed-size") == "0"
        and "X-Pulsar-num-batch-message" not in headers
    )
