"""Shrinks a history that shows an anomaly: delta debugging, with the checker as the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqplug.spi import Deadline
from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.checker import check
from mqplug_testing.history._events.events import ConsumerOpened, Event
from mqplug_testing.history._events.history import History


def shrink(history: History, anomaly: Anomaly, *, seconds: float = 5.0) -> tuple[Event, ...]:
    """Return a few events of the history in which the same anomaly is found.

    Events that would excuse it were searched in the whole history: the result contains only those that show it. At the
    timeout, the shortest so far is returned.
    """
    frame = {each.did.consumer: each for each in history.events if isinstance(each.did, ConsumerOpened)}
    deadline = Deadline(seconds)

    def shows(events: Sequence[Event]) -> bool:
        return any(each.key == anomaly.key for each in check(history.only(_framed(events, frame))))

    kept = [event for event in history.events if not isinstance(event.did, ConsumerOpened)]
    near = [event for event in kept if _is_near(event, anomaly)]
    kept = near if shows(near) else kept
    named = list(dict.fromkeys(event for event in anomaly.events if not isinstance(event.did, ConsumerOpened)))
    named.sort(key=lambda event: event.number)
    if shows(named):
        kept = named
    return tuple(_framed(_minimise(kept, shows, deadline), frame))


def _is_near(event: Event, anomaly: Anomaly) -> bool:
    """Return whether an event is about the same partition, or about none in particular."""
    partition = getattr(event.did, "partition", None)
    return anomaly.partition is None or partition is None or partition == anomaly.partition


def _framed(events: Sequence[Event], frame: dict[str, Event]) -> list[Event]:
    """Return the events, and the opening of each consumer among them."""
    consumers = {getattr(event.did, "consumer", None) for event in events}
    openings = [event for consumer, event in frame.items() if consumer in consumers]
    return sorted([*events, *openings], key=lambda event: event.number)


def _minimise(events: list[Event], shows: Callable[[Sequence[Event]], bool], deadline: Deadline) -> list[Event]:
    """Leave out ever smaller parts while the rest still shows it."""
    parts = 2
    while len(events) > 1 and not deadline.expired:
        size = max(1, len(events) // parts)
        for start in range(0, len(events), size):
            rest = events[:start] + events[start + size :]
            if rest and shows(rest):
                events, parts = rest, max(parts - 1, 2)
                break
            if not deadline.remaining():
                return events
        else:
            if size == 1:
                return events
            parts = min(len(events), parts * 2)
    return events
