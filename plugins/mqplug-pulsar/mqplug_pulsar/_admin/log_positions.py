"""Looks up positions in logs: watermarks, bounds, and the positions of symbolic starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import _pulsar

from mqplug import Bounds, Log, MessageId, Position, Timeout, Watermarks
from mqplug.spi import AtTime, Deadline, Earliest, Last, Latest, Numbers, SymbolicStart
from mqplug_pulsar._cluster.broker_statistics import Ledgers
from mqplug_pulsar._cluster.client_calls import retry_while_cursor_moves
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._format import message_ids

T = TypeVar("T")

MAX_DISORDER_MS = 30_000  # producers retry a message for this long, and it keeps its publish time


def start_positions(
    connection: PulsarConnection, start: SymbolicStart, logs: Sequence[Log], timeout: float
) -> dict[Log, Position]:
    """Return the current position of a start, for each log."""
    found = _for_each(connection, logs, timeout, partial(_resolve, connection, start))
    return {log: Position(log, place) for log, place in found.items()}


def watermarks(
    connection: PulsarConnection, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float
) -> dict[Log, Watermarks]:
    """Return the watermarks. They count entries, each of which holds one message or a batch."""
    found = _for_each(connection, logs, timeout, connection.ledgers)
    return {log: _watermarks(log, ledgers, since.get(log)) for log, ledgers in found.items()}


def bounds(connection: PulsarConnection, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
    """Return the ids of the first and last message of each log, read from the log."""
    return _for_each(connection, logs, timeout, partial(_bounds, connection))


def _for_each(
    connection: PulsarConnection, logs: Sequence[Log], timeout: float, ask: Callable[[Log, float], T]
) -> dict[Log, T]:
    return connection.calls.each({log: partial(ask, log, timeout) for log in logs}, timeout)


def _resolve(connection: PulsarConnection, start: SymbolicStart, log: Log, timeout: float) -> Numbers:
    ledgers = connection.ledgers(log, timeout)
    match start:
        case Earliest():
            return ledgers.low
        case Latest():
            return ledgers.high
        case AtTime(milliseconds):
            return _at_time(connection, log, milliseconds, ledgers.high, timeout)
        case Last(count):
            return _last(connection, log, count, ledgers, timeout)


def _at_time(connection: PulsarConnection, log: Log, milliseconds: int, high: Numbers, timeout: float) -> Numbers:
    """Return the position of the first message published at or after a time, or the end if there is none.

    A batch has one publish time. The broker searches as if times grew along the log, which is wrong with several
    producers, or with one that sent again. So ask it for an earlier time, and read from there.
    """
    deadline = Deadline(timeout)

    def search(reader: Any) -> Numbers | None:
        """Return the position; None if the messages before the end, if there are any, were not read."""
        position: Numbers = ()
        retry_while_cursor_moves(partial(reader.seek, max(0, milliseconds - MAX_DISORDER_MS)), deadline)
        while position < high and retry_while_cursor_moves(reader.has_message_available, deadline):
            message = _next(reader, deadline.remaining())
            place = message_ids.coordinates(message.message_id())
            if place >= high:
                break
            if message.publish_timestamp() >= milliseconds:
                return message_ids.position_before(place)
            position = message_ids.position_after(place, message_ids.detail(message.message_id()))
        return high if position >= high else None

    for _ in range(2):  # a reader that seeks while its topic is reloaded continues at the end
        found = connection.reading(connection.native_topic(log), message_ids.LOG_BEGIN, search, queue=1000)
        if found is not None:
            return found
    return high


def _last(connection: PulsarConnection, log: Log, count: int, ledgers: Ledgers, timeout: float) -> Numbers:
    """Return the position ``count`` messages before the end. Read that many entries: each has at least one message."""
    if not count or ledgers.low == ledgers.high:
        return ledgers.high
    deadline = Deadline(timeout)
    start = ledgers.back(count) if connection.admin is not None else _entries_back(ledgers, count)

    def read(reader: Any) -> Numbers:
        places: deque[Numbers] = deque([start], maxlen=count)
        position = start
        while position < ledgers.high:
            native = _next(reader, deadline.remaining()).message_id()
            places.append(message_ids.coordinates(native))
            position = message_ids.position_after(places[-1], message_ids.detail(native))
        return message_ids.position_before(places[0])

    return connection.reading(connection.native_topic(log), start, read)


def _entries_back(ledgers: Ledgers, count: int) -> Numbers:
    """Return the position ``count`` entries back in the last ledger, or ``low``. For use without a table of ledgers."""
    ledger, entry, _ = ledgers.high[:3]
    return (ledger, entry - count, -1) if count <= entry else ledgers.low


def _watermarks(log: Log, ledgers: Ledgers, since: Position | None) -> Watermarks:
    low, high = Position(log, ledgers.low), Position(log, ledgers.high)
    start = max(low, since) if since is not None else low
    return Watermarks(low, high, ledgers.entries_from(start.coordinates), exact=False)


def _bounds(connection: PulsarConnection, log: Log, timeout: float) -> Bounds:
    ledgers = connection.ledgers(log, timeout)
    topic = connection.native_topic(log)
    last = connection.last_id(topic, timeout)
    if last is None or ledgers.low == ledgers.high:
        return Bounds(None, None)
    first = connection.reading(topic, ledgers.low, lambda reader: _next(reader, timeout).message_id())
    return Bounds(MessageId(log, message_ids.coordinates(first), message_ids.detail(first)), MessageId(log, *last))


def _next(reader: Any, timeout: float) -> Any:
    if timeout <= 0:
        raise Timeout("the search in the log did not end in time", fix="Allow more time")
    try:
        return reader.read_next(max(1, int(timeout * 1000)))
    except _pulsar.Timeout as error:
        raise Timeout(
            f"the broker did not deliver a stored message within {timeout:.3g} s", fix="Allow more time"
        ) from error
