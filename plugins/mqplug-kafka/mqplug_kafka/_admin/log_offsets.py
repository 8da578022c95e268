"""Looks up the offsets of logs: watermarks, bounds, and the positions of symbolic starts.

A log ends after its last stored message, which may belong to an open transaction. Its committed messages end before
the first open transaction: consumers read that far, and so do the scans that count messages. A scan finds the offsets
of messages by reading a little of each log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Bounds, ConnectError, Error, Log, MessageId, Position, PositionLost, Timeout, Watermarks
from mqplug.spi import AtTime, Deadline, Earliest, Last, Latest, SymbolicStart
from mqplug_kafka._cluster.admin_requests import FIRST_ATTEMPT_S, RETRY_PAUSE_S, UNANSWERED_PAUSE_S
from mqplug_kafka._cluster.client_options import consuming
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import REMOVED_CODES, TRANSIENT_CODES, code_of, typed_error

NO_GROUP_ID = "mqplug-without-group"
"""The group id of consumers without a group. The client requires one; nothing is stored under it."""

Spans = Mapping[Log, tuple[int, int]]

MAX_COUNTED_MESSAGES = 10_000  # last(n) counts messages up to this number, and offsets above it

READABLE_PAUSE_S = 0.002  # at first; doubled each time

LOG_START: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LOG_END: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_RETRIED_CODES = TRANSIENT_CODES | {KafkaError._NOENT}

T = TypeVar("T")
LogOffsets = dict[Log, int]
PendingOffsets = Callable[[float], LogOffsets]


class OffsetScan:
    """A short-lived client consumer that reports the offsets of messages."""

    def __init__(self, connection: KafkaConnection, deadline: Deadline) -> None:
        options = consuming(connection.settings, NO_GROUP_ID, 1024 * 1024)
        self._connection = connection
        self._deadline = deadline
        self._consumer = Consumer(connection.credentials.prepared(options, connection.requests.failures))

    def __enter__(self) -> OffsetScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def first(self, spans: Spans) -> dict[Log, int]:
        """Return the offset of the first message of each span that holds one."""
        return {log: offsets[0] for log, offsets in self._scan(spans, 1).items() if offsets}

    def last(self, spans: Spans, count: int) -> dict[Log, list[int]]:
        """Return the offsets of the last ``count`` messages of each span, or of all if there are fewer."""
        found: dict[Log, list[int]] = {}
        reach = dict.fromkeys(spans, count)
        while reach:
            windows = {log: (max(spans[log][0], spans[log][1] - far), spans[log][1]) for log, far in reach.items()}
            seen = self._scan(windows, None)
            done = {log for log, each in seen.items() if len(each) >= count or windows[log][0] == spans[log][0]}
            found |= {log: seen[log][-count:] for log in done}
            reach = {log: far * 4 for log, far in reach.items() if log not in done}
        return found

    def _scan(self, spans: Spans, most: int | None) -> dict[Log, list[int]]:
        """Return the offsets of the first ``most`` messages in each span, or of all if None."""
        found: dict[Log, list[int]] = {log: [] for log in spans}
        names = {(log.topic, log.partition): log for log in spans}
        left = set(spans)
        self._consumer.assign([TopicPartition(log.topic, log.partition, start) for log, (start, _) in spans.items()])
        while left:
            if self._deadline.expired:
                raise self._connection.requests.failures.explain("bounds", 0.0)
            for message in self._received():
                if _is_about_group(message):
                    continue  # the scan uses no group, so it needs no right on one
                log = names[message.topic() or "", message.partition() or 0]
                offset, error = message.offset() or 0, message.error()
                if error is not None and error.code() in REMOVED_CODES:
                    raise PositionLost(f"messages of {log!r} were removed while they were looked up", log=log)
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise typed_error(error, "bounds")
                if log not in left:
                    continue
                if error is None and offset < spans[log][1]:
                    found[log].append(offset)
                if error is not None or offset >= spans[log][1] - 1 or len(found[log]) == most:
                    left.discard(log)
        return found

    def _received(self) -> list[Message]:
        """Return the fetched messages, or one that arrives within 50 ms."""
        if messages := self._consumer.consume(1000, 0):
            return messages
        message = self._consumer.poll(0.05)
        return [] if message is None else [message]  # a client's message with an empty value is false


def _is_about_group(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def look_up(
    connection: KafkaConnection, logs: Iterable[Log], spec: OffsetSpec, *, committed: bool = False
) -> PendingOffsets:
    """Begin to look up an offset of each log. Call the returned function for the answer.

    With ``committed``, the end of a log is the end of its committed messages.
    """
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    wanted = {TopicPartition(log.topic, log.partition): log for log in logs}
    asked: list[Any] = []

    def ask() -> None:
        asked[:] = [connection.admin.list_offsets(dict.fromkeys(wanted, spec), isolation_level=level)] if wanted else []

    def answer(timeout: float) -> LogOffsets:
        deadline, attempt_s = Deadline(timeout), FIRST_ATTEMPT_S
        while True:
            began = time.monotonic()
            cause: Error | None = None
            try:
                futures = list(map(asked[0].__getitem__, wanted)) if wanted else []
                found = connection.requests.wait_for_all("offsets", futures, deadline.remaining(attempt_s))
                offsets = {log: each.offset for log, each in zip(wanted.values(), found, strict=True)}
                # A broker that has just come back may answer -1, although every log has both ends.
                if spec not in (LOG_START, LOG_END) or all(offset >= 0 for offset in offsets.values()):
                    return offsets
            except Error as error:
                if code_of(error) in _RETRIED_CODES:
                    cause = error
                elif not isinstance(error, ConnectError | Timeout):
                    raise
                else:  # as in ``AdminRequests.insist``
                    if deadline.remaining() <= UNANSWERED_PAUSE_S or connection.requests.is_refused(began):
                        raise
                    attempt_s *= 2
                    time.sleep(UNANSWERED_PAUSE_S)
            if deadline.expired:
                raise Timeout(
                    f"look up offsets: some of {len(wanted)} partitions have no leader after {timeout:.3g} s",
                    fix="Check that all brokers are up",
                ) from cause
            time.sleep(RETRY_PAUSE_S)
            ask()

    ask()
    return answer


def wait_until_readable(connection: KafkaConnection, last: Mapping[Log, int], deadline: Deadline) -> bool:
    """Wait until readers can reach these offsets. Return whether they can."""
    pause = READABLE_PAUSE_S
    while True:
        high = look_up(connection, last, LOG_END, committed=True)(deadline.remaining())
        if all(high[log] > offset for log, offset in last.items()):
            return True
        if deadline.expired:
            return False
        time.sleep(deadline.remaining(pause))
        pause *= 2


def readable(connection: KafkaConnection, last: Mapping[Log, int], timeout: float) -> bool | None:
    """Return whether readers get the messages at these offsets of one transaction; None if unknown."""
    deadline = Deadline(timeout)
    for log, offset in last.items():
        with suppress(Error):
            if wait_until_readable(connection, {log: offset}, deadline):
                with OffsetScan(connection, deadline) as probe:
                    return probe.first({log: (offset, offset + 1)}).get(log) == offset
        break
    return None


def range_of(
    connection: KafkaConnection, logs: Sequence[Log], deadline: Deadline, *, committed: bool = False
) -> tuple[LogOffsets, LogOffsets]:
    """Return the first and the end offset of each log, or of its committed messages, in one round trip each."""
    low = look_up(connection, logs, LOG_START)
    high = look_up(connection, logs, LOG_END, committed=committed)
    connection.check(logs, deadline.remaining())
    return low(deadline.remaining()), high(deadline.remaining())


def watermarks(
    connection: KafkaConnection, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float
) -> dict[Log, Watermarks]:
    """Return the watermarks. They count offsets, in which compaction and transactions leave gaps."""
    deadline = Deadline(timeout)
    committed = look_up(connection, logs, LOG_END, committed=True)
    low, high = range_of(connection, logs, deadline)
    readable = committed(deadline.remaining())
    found = {}
    for log in logs:
        begin = max(low[log], since[log].coordinates[0] if log in since else 0)
        end, count = _at(log, high[log]), max(0, high[log] - begin)
        found[log] = Watermarks(_at(log, low[log]), end, count, readable=min(_at(log, readable[log]), end))
    return found


def resolve_start(
    connection: KafkaConnection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> dict[Log, Position]:
    """Return the current position of a start, for each log.

    The last messages are counted back from the end of the committed ones. Messages of a transaction that is open now
    come after them, once it is committed.
    """
    deadline = Deadline(timeout)
    return _until_kept(lambda: _resolved(connection, start, logs, deadline))


def _resolved(
    connection: KafkaConnection, start: SymbolicStart, logs: Sequence[Log], deadline: Deadline
) -> dict[Log, Position]:
    counts = isinstance(start, Last) and start.count > 0
    low, high = range_of(connection, logs, deadline, committed=counts)
    found: Mapping[Log, int]
    match start:
        case Earliest():
            found = low
        case Latest():
            found = high
        case AtTime(milliseconds):
            later = look_up(connection, logs, OffsetSpec.for_timestamp(milliseconds))(deadline.remaining())
            found = {log: offset if offset >= 0 else high[log] for log, offset in later.items()}
        case Last(count):
            found = _last(connection, {log: (low[log], high[log]) for log in logs}, count, deadline)
    return {log: _at(log, offset) for log, offset in found.items()}


def bounds(connection: KafkaConnection, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
    """Return the ids of the first and last committed message, read from the log: markers and gaps take offsets too."""
    deadline = Deadline(timeout)
    return _until_kept(lambda: _bounds(connection, logs, deadline))


def _bounds(connection: KafkaConnection, logs: Sequence[Log], deadline: Deadline) -> dict[Log, Bounds]:
    low, high = range_of(connection, logs, deadline, committed=True)
    spans = {log: (low[log], high[log]) for log in logs if low[log] < high[log]}
    found = {log: Bounds(None, None) for log in logs}
    if not spans:
        return found
    with OffsetScan(connection, deadline) as probe:
        first = probe.first(spans)
        last = probe.last({log: (low, high) for log, (low, high) in spans.items() if log in first}, 1)
    return found | {log: Bounds(_id(log, first[log]), _id(log, last[log][-1])) for log in last}


def _until_kept(ask: Callable[[], T]) -> T:
    """Return an answer. Ask again if retention removed messages of the logs since their ends were looked up."""
    while True:
        with suppress(PositionLost):
            return ask()


def _last(
    connection: KafkaConnection, spans: Mapping[Log, tuple[int, int]], count: int, deadline: Deadline
) -> LogOffsets:
    if not 0 < count <= MAX_COUNTED_MESSAGES:
        return {log: max(low, high - count) for log, (low, high) in spans.items()}
    filled = {log: span for log, span in spans.items() if span[0] < span[1]}
    found = {log: high for log, (_, high) in spans.items()}
    if filled:
        with OffsetScan(connection, deadline) as probe:
            found |= {log: offsets[0] for log, offsets in probe.last(filled, count).items() if offsets}
    return found


def _at(log: Log, offset: int) -> Position:
    return Position(log, (offset,))


def _id(log: Log, offset: int) -> MessageId:
    return MessageId(log, (offset,))
