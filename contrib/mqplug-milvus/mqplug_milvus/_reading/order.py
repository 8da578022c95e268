"""Puts the events of one topic into the order of their time stamps, as Milvus does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

import attrs

import mqplug
from mqplug_milvus._format.events import Delete, Event, Insert, TimeTick

MOST = 100_000
_time = attrgetter("time")


class TickOverdue(mqplug.Error):
    """So many events came since the last time tick that they are kept no longer.

    Milvus sends ticks five times a second while it runs. Without them the order of events is not known.
    """

    fix = "Look whether Milvus runs and writes to this topic, or allow more events with waiting="


class TickOrder:
    """Keeps events until a time tick of their topic says that no earlier one comes later.

    Milvus' proxies write at the same time, so events stand in a topic in the order of their arrival.
    """

    def __init__(self, topic: str, most: int = MOST) -> None:
        self._topic = topic
        self._most = most
        self._waiting: list[Event] = []
        self.complete_to = 0
        """The time stamp of the last tick: all events up to it were returned."""

    @property
    def waiting(self) -> int:
        """How many events wait for the next tick."""
        return len(self._waiting)

    def add(self, event: Event) -> Iterator[Event]:
        """Yield the events that are final now, in order, each `Delete` of an upsert just before its `Insert`.

        The last one is the tick. Raise ``TickOverdue`` if too many events wait.
        """
        if not isinstance(event, TimeTick):
            self._waiting.append(event)
            if len(self._waiting) > self._most:
                raise TickOverdue(f"{len(self._waiting)} events have waited for a time tick", topic=self._topic)
            return
        self.complete_to = max(self.complete_to, event.time)
        final = sorted((each for each in self._waiting if each.time <= event.time), key=_rank)
        self._waiting = [each for each in self._waiting if each.time > event.time]
        yield from _with_upserts(final)
        yield event


def _rank(event: Event) -> tuple[int, bool]:
    return event.time, isinstance(event, Insert)


def _with_upserts(events: list[Event]) -> Iterator[Event]:
    """Mark the inserts that replace rows: those with a delete of the same time stamp in their shard."""
    replaced: defaultdict[str, set[int]] = defaultdict(set)
    for event in events:
        if isinstance(event, Delete):
            replaced[event.shard].add(event.time)
        if isinstance(event, Insert) and event.time in replaced[event.shard]:
            yield attrs.evolve(event, is_upsert=True)
        else:
            yield event
