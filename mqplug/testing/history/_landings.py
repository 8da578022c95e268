"""Where a start or a seek may lead: the earliest and the latest position that are both right."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import attrs

from mqplug.testing.history._events import Event, Place, Target
from mqplug.testing.history._logs import Logs

BEGIN: Place = ()
"""A position before everything."""


@attrs.frozen
class Landing:
    """A position that is not less than ``low``, and not more than ``high``; None is nobody knows how far.

    ``lenient``: what retention removed is passed over in silence.
    """

    low: Place
    high: Place | None
    lenient: bool = True

    @classmethod
    def exactly(cls, place: Place, *, lenient: bool = True) -> Landing:
        """The one position."""
        return cls(place, place, lenient)


ANYWHERE = Landing(BEGIN, None)


def just_after(place: Place) -> Place:
    """The position behind a message: ids may be sparse, so it is no other id's."""
    return (*place, 0)


def landing(logs: Logs, target: Target, partition: int, event: Event, *, lenient: bool) -> Landing:
    """Where this call may have led a partition."""
    if target.partition not in {None, partition}:
        return Landing.exactly(BEGIN)
    match target.kind:
        case "before" | "position":
            return Landing.exactly(target.place, lenient=lenient)
        case "after":
            return Landing.exactly(just_after(target.place), lenient=lenient)
        case "earliest":
            return Landing.exactly(BEGIN)
        case "latest":
            return _behind(logs, partition, event, 0)
        case "last":
            return _behind(logs, partition, event, target.number)
        case "time":
            return _at_time(logs, partition, target.number)


def _behind(logs: Logs, partition: int, event: Event, count: int) -> Landing:
    """So many messages before the end, as it was at some moment of the call."""
    order = logs.order(partition)
    end = bisect_right(order, logs.last_before(partition, event.began))
    later = logs.first_after(partition, event.ended)
    last = len(order) if later is None else max(bisect_left(order, later), end)
    if count == 0:
        return Landing(just_after(order[end - 1]) if end else BEGIN, order[last] if last < len(order) else None)
    return Landing(order[end - count] if end >= count else BEGIN, order[last - count] if last >= count else BEGIN)


def _at_time(logs: Logs, partition: int, moment: int) -> Landing:
    """The first message in log order that is not older."""
    place = logs.first_at(partition, moment)
    return ANYWHERE if place is None else Landing.exactly(place)
