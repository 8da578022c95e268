"""Where a start or a seek may lead: the range of positions that are right."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import attrs

from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import Coordinates, Event, SeekTarget

BEFORE_ALL: Coordinates = ()
"""A position before everything."""


@attrs.frozen
class PositionRange:
    """The positions not less than ``low`` and not more than ``high``; None means that the end is unknown.

    ``lenient``: trimmed messages are skipped without an error.
    """

    low: Coordinates
    high: Coordinates | None
    lenient: bool = True

    @classmethod
    def exactly(cls, place: Coordinates, *, lenient: bool = True) -> PositionRange:
        """Return the range of this one position."""
        return cls(place, place, lenient)


ANYWHERE = PositionRange(BEFORE_ALL, None)


def just_after(place: Coordinates) -> Coordinates:
    """Return the position just after a message: ids may be sparse, so it equals no other id."""
    return (*place, 0)


def expected_range(logs: SeenLogs, target: SeekTarget, partition: int, event: Event, *, lenient: bool) -> PositionRange:
    """Return where this call may have led a partition."""
    if target.partition not in {None, partition}:
        return PositionRange.exactly(BEFORE_ALL)
    match target.kind:
        case "before" | "position":
            return PositionRange.exactly(target.place, lenient=lenient)
        case "after":
            return PositionRange.exactly(just_after(target.place), lenient=lenient)
        case "earliest":
            return PositionRange.exactly(BEFORE_ALL)
        case "latest":
            return _behind(logs, partition, event, 0)
        case "last":
            return _behind(logs, partition, event, target.number)
        case "time":
            return _at_time(logs, partition, target.number)


def _behind(logs: SeenLogs, partition: int, event: Event, count: int) -> PositionRange:
    """Return the position `count` messages before the end, as it was at some moment of the call."""
    order = logs.order(partition)
    end = bisect_right(order, logs.last_before(partition, event.began))
    later = logs.first_after(partition, event.ended)
    last = len(order) if later is None else max(bisect_left(order, later), end)
    if count == 0:
        return PositionRange(
            just_after(order[end - 1]) if end else BEFORE_ALL, order[last] if last < len(order) else None
        )
    return PositionRange(
        order[end - count] if end >= count else BEFORE_ALL,
        order[last - count] if last >= count else BEFORE_ALL,
    )


def _at_time(logs: SeenLogs, partition: int, moment: int) -> PositionRange:
    """Return the first message in log order that is not older."""
    place = logs.first_at(partition, moment)
    return ANYWHERE if place is None else PositionRange.exactly(place)
