"""One log: the messages that were stored, in order, and the row from which on they are retained.

Places in a log are counted in messages: point ``n`` lies right before the message of row ``n``. The ids are the
backend's; the model adopts them when it sees them first, and holds the backend to their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import attrs

from mqplug import Log, Message, MessageId, Position, PositionLost
from mqplug.spi import AtTime, Earliest, Last, Latest
from mqplug_testing.model.rules import Outcome, check, refused

CLOCK_SLACK_MS = 60_000  # between the clocks of this machine and the backend's


@attrs.frozen
class Content:
    """What a message was sent with."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


@attrs.define
class LogTimes:
    """Whether ``log_time`` is the producer's timestamp, if there is one. The first such message shows it."""

    of_producer: bool | None = None


@attrs.define(eq=False)
class Stored:
    """A stored message, which was sent between two times."""

    id: MessageId
    content: Content
    between: tuple[int, int]
    log_times: LogTimes
    keeps_timestamp: bool
    log_time: int | None = None

    @property
    def times(self) -> tuple[int, int]:
        """The earliest and the latest ``log_time`` that it may have."""
        timestamp, (began, ended) = self.content.timestamp, self.between
        if self.log_time is not None:
            return self.log_time, self.log_time
        if timestamp is None or self.log_times.of_producer is False:
            return began, ended
        if self.log_times.of_producer:
            return timestamp, timestamp
        return min(timestamp, began), max(timestamp, ended)

    def check_content(self, message: Message, log_time: int) -> None:
        """Check that a delivered message is this one, and adopt its time."""
        wanted = self.content
        seen = Content(message.value, message.key, tuple(message.headers), wanted.timestamp)
        check(seen == wanted, "content", wanted, seen)
        if wanted.timestamp is not None:
            if self.keeps_timestamp:
                timestamp = round(message.timestamp.timestamp() * 1000)
                check(timestamp == wanted.timestamp, "content", f"timestamp {wanted.timestamp}", timestamp)
            if self.log_times.of_producer is None:
                self.log_times.of_producer = log_time == wanted.timestamp
        first, last = self.times
        check(first <= log_time <= last, "log-time", f"a log_time from {first} to {last}", log_time)
        self.log_time = log_time


@attrs.frozen(kw_only=True)
class Places:
    """Where a start may lead: any of these points, or an error if messages there were removed.

    ``beyond`` is a position after the end. Messages that it does not precede are passed over, when they are sent.
    ``removed`` is the wanted point if it was removed and the first retained one takes its place: a consumer may stay
    there until it reads.
    """

    points: frozenset[int]
    removed: int | None = None
    may_be_lost: bool = False
    lost: bool = False
    beyond: Position | None = None

    @property
    def begins(self) -> frozenset[int]:
        """The points at which a consumer begins."""
        return self.points if self.removed is None else frozenset({self.removed})


@attrs.frozen
class Near:
    """The start at a message, or right after it."""

    id: MessageId
    after: bool


AnyStart = Near | Position | Earliest | Latest | AtTime | Last


@attrs.define(eq=False)
class LogModel:
    """One incarnation of one partition."""

    log: Log
    stored: list[Stored] = attrs.field(factory=list)
    low: int = 0
    low_position: Position | None = None  # the last one that was seen
    high_position: Position | None = None
    deleted: bool = False
    hides: bool = False  # whether it has aborted messages, which a search by time may find

    @property
    def end(self) -> int:
        """The point after the last message."""
        return len(self.stored)

    @property
    def is_dense(self) -> bool:
        """Whether ids are single numbers without gaps, as far as is known."""
        ids = [each.id.coordinates for each in self.stored]
        return not ids or ids == [(number,) for number in range(ids[0][0], ids[0][0] + len(ids))]

    def store(self, message: Stored, rule: str = "send-order") -> int:
        """Add a message that the backend confirmed, and return its row. Ids only grow."""
        check(message.id.log is self.log, "id", f"an id of {self.log!r}", repr(message.id))
        if self.stored:
            last = self.stored[-1].id
            check(message.id > last, rule, f"an id after {last!r}", repr(message.id))
        self.stored.append(message)
        return len(self.stored) - 1

    @property
    def gap_before_low(self) -> bool:
        """Whether a backend may take the point after the last removed message for a lost one: ids leave a gap there."""
        if self.low == 0:  # low may have risen in the gap before the first message
            return self.low_position is not None and any(each.id.coordinates > (0,) for each in self.stored[:1])
        if self.low_position is None:
            return True
        first, *others = self.stored[self.low - 1].id.coordinates
        return bool(others) or self.low_position.coordinates > (first + 1,)

    def row(self, wanted: MessageId) -> int | None:
        """Return the row of a message, or None if there is none with this id."""
        row = bisect_left(self.stored, wanted.coordinates, key=lambda each: each.id.coordinates)
        return row if row < self.end and self.stored[row].id == wanted else None

    def point(self, position: Position) -> int:
        """Return where a position lies."""
        return sum(not position.precedes(each.id) for each in self.stored)

    def passed(self, point: int, beyond: Position | None) -> int:
        """Return a point, further on if messages were sent since that lie before a position beyond the end."""
        while beyond is not None and point < self.end and not beyond.precedes(self.stored[point].id):
            point += 1
        return point

    # starts ------------------------------------------------------------------------------------------------

    def places(self, start: AnyStart, *, lenient: bool) -> Places:
        """Return where a start leads. ``lenient`` means the first retained message if the wanted one was removed."""
        match start:
            case Earliest():
                return Places(points=frozenset({self.low}))
            case Latest():
                return Places(points=frozenset({self.end}))
            case Last(count):
                return Places(points=frozenset({max(self.low, self.end - count)}))
            case AtTime(milliseconds):
                return Places(points=frozenset(self._at_time(milliseconds)))
            case Near(wanted, after):
                row = self.row(wanted)
                assert row is not None, "programs name only messages of this log"
                return self._retained(row + after, gone=row < self.low, lenient=lenient)
            case Position():
                point = self.point(start)
                gone = self.low_position is not None and start < self.low_position
                beyond = start if point == self.end and not gone else None
                return attrs.evolve(self._retained(point, gone=gone, lenient=lenient), beyond=beyond)

    def _retained(self, point: int, *, gone: bool, lenient: bool) -> Places:
        """Return a point, or the first retained one if it was removed.

        Right after the last removed message nothing is missing, but a backend whose ids have gaps cannot tell.
        """
        if point < self.low:
            return Places(points=frozenset({self.low} if lenient else ()), lost=not lenient, removed=point)
        return Places(points=frozenset({point}), may_be_lost=gone and self.gap_before_low and not lenient)

    def _at_time(self, milliseconds: int) -> Iterator[int]:
        for row in range(self.low, self.end):
            first, last = self.stored[row].times
            if last >= milliseconds or self.hides:
                yield row
            if first >= milliseconds:
                return
        yield self.end

    # answers -----------------------------------------------------------------------------------------------

    def check_lost(self, outcome: Outcome, rule: str, *, since: int | None = None) -> None:
        """Check that an error is ``PositionLost`` and names where the log begins.

        An error that is repeated may name where it began when the reader at the point ``since`` was overtaken.
        """
        refused(outcome, rule, PositionLost)
        low = getattr(outcome.error, "low", None)
        first = self.low if since is None else min(since, self.low)
        begins = isinstance(low, Position) and low.log is self.log and first <= self.point(low) <= self.low
        check(begins, rule, f"PositionLost with the low that lies before {self.name(self.low)}", repr(low))

    def name(self, point: int) -> str:
        """Return a point as text."""
        return repr(self.stored[point].id) if point < self.end else f"the end of {self.log!r}"

    def check_position(self, position: object, places: Places, rule: str) -> None:
        """Check that a position is one of these places."""
        allowed = " or ".join(sorted(map(self.name, places.points)))
        right = isinstance(position, Position) and position.log is self.log and self.point(position) in places.points
        check(right, rule, f"a position right before {allowed}", repr(position))
        if places.beyond is not None:
            check(position == places.beyond, "beyond", repr(places.beyond), repr(position))
