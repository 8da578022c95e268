"""The messages of each partition, as far as a history shows them, and where a start or a seek may lead."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, takewhile

import attrs

from mqplug_testing.history._events import (
    AllMessagesRead,
    Coordinates,
    Event,
    MessageReceived,
    MessagesTrimmed,
    RecordSent,
    SeekTarget,
)
from mqplug_testing.history._history import History


class SeenLogs:
    """Every message that was received from a partition, or whose producer got its id."""

    def __init__(self, history: History) -> None:
        self.guarantee = history.guarantee
        self.sends: dict[str, Event] = {}
        self.seen: dict[tuple[int, Coordinates], dict[str, Event]] = defaultdict(dict)
        self.read: dict[str, dict[tuple[int, Coordinates], Event]] = defaultdict(dict)  # where each value was received
        self.log_times: dict[tuple[int, Coordinates], int] = {}
        self.final: dict[tuple[int, Coordinates], Event] | None = None
        self._trims: dict[int, list[tuple[int, Coordinates]]] = defaultdict(list)
        for event in history.events:
            self._note(event)
        self._order: dict[int, list[Coordinates]] = defaultdict(list)
        for partition, place in sorted(self.seen):
            self._order[partition].append(place)
        self._ends = {partition: self._stored_until(partition) for partition in self._order}
        self._begins = {partition: self._sent_since(partition) for partition in self._order}
        self._times = {partition: self._newest_until(partition) for partition in self._order}
        self._removed = {partition: self._trimmed_by(partition) for partition in self._trims}
        self._find_final(history)

    def _note(self, event: Event) -> None:
        match event.did:
            case RecordSent(value=value, partition=partition, id=place):
                self.sends[value] = event
                if event.ok and place is not None and partition is not None:
                    self.seen[partition, place].setdefault(value, event)
            case MessageReceived(partition=partition, id=place, value=value, log_time=log_time):
                self.seen[partition, place].setdefault(value, event)
                self.read[value].setdefault((partition, place), event)
                self.log_times.setdefault((partition, place), log_time)
            case MessagesTrimmed(partition=partition, before=before) if event.outcome != "failed":
                self._trims[partition].append((event.began, before))
            case _:
                pass

    def _stored_until(self, partition: int) -> tuple[list[int], list[Coordinates]]:
        """Return the ends of sends, in order; before each, and after the last, the last coordinates known by then."""
        sends = ((self.send_of(partition, place), place) for place in self._order[partition])
        known = sorted((send.ended, place) for send, place in sends if send is not None and send.ok)
        return [ended for ended, _ in known], [(), *accumulate((place for _, place in known), max)]

    def _sent_since(self, partition: int) -> tuple[list[int], list[Coordinates | None]]:
        """Return the beginnings of sends, in order; from each on the first coordinates sent to, and None at the end."""
        sends = ((self.send_of(partition, place), place) for place in self._order[partition])
        known = sorted((send.began, place) for send, place in sends if send is not None)
        firsts = list(accumulate((place for _, place in reversed(known)), min))
        return [began for began, _ in known], [*reversed(firsts), None]

    def _newest_until(self, partition: int) -> list[int]:
        """Return the latest log time up to each message, until one that was not read: its time is unknown."""
        keys = ((partition, place) for place in self._order[partition])
        return list(accumulate((self.log_times[key] for key in takewhile(self.log_times.__contains__, keys)), max))

    def _trimmed_by(self, partition: int) -> tuple[list[int], list[Coordinates]]:
        """Return the beginnings of trims, in order; before each, and after the last, how far they may have trimmed by
        then.
        """
        trims = sorted(self._trims[partition])
        return [began for began, _ in trims], [(), *accumulate((before for _, before in trims), max)]

    def _find_final(self, history: History) -> None:
        readers = {each.did.consumer for each in history.events if isinstance(each.did, AllMessagesRead) and each.ok}
        if readers:
            self.final = {
                (each.did.partition, each.did.id): each
                for each in history.events
                if isinstance(each.did, MessageReceived) and each.did.consumer in readers
            }

    # asking ------------------------------------------------------------------------------------------------

    def order(self, partition: int) -> Sequence[Coordinates]:
        """Return all coordinates of a partition, in order."""
        return self._order.get(partition, ())

    @property
    def partitions(self) -> list[int]:
        """The partitions with known messages."""
        return sorted(self._order)

    def between(self, partition: int, first: Coordinates, end: Coordinates) -> Sequence[Coordinates]:
        """Return the coordinates from ``first`` on, and before ``end``."""
        order = self.order(partition)
        return order[bisect_left(order, first) : bisect_left(order, end)]

    def inside(self, partition: int, low: Coordinates, high: Coordinates) -> Sequence[Coordinates]:
        """Return the coordinates strictly between two others."""
        order = self.order(partition)
        return order[bisect_right(order, low) : bisect_left(order, high)]

    def next(self, partition: int, position: Coordinates) -> Coordinates | None:
        """Return the first message at or after a position."""
        order = self.order(partition)
        index = bisect_left(order, position)
        return order[index] if index < len(order) else None

    def send_of(self, partition: int, place: Coordinates) -> Event | None:
        """Return the send of the message at these coordinates."""
        return next((self.sends[value] for value in self.seen[partition, place] if value in self.sends), None)

    def stored_before(self, partition: int, place: Coordinates, moment: int) -> bool:
        """Return whether a message was surely stored at that time: its producer had its id."""
        send = self.send_of(partition, place)
        return send is not None and send.ok and send.ended < moment

    def first_at(self, partition: int, moment: int) -> Coordinates | None:
        """Return the first message whose log time is not earlier, if that one is known."""
        times = self._times.get(partition, [])
        index = bisect_left(times, moment)
        return self._order[partition][index] if index < len(times) else None

    def first_retained_at(self, partition: int, moment: int, trimmed: Coordinates) -> Coordinates | None:
        """Return the first message after a trim whose log time is not earlier, if that one is known."""
        order = self.order(partition)
        for place in order[bisect_left(order, trimmed) :]:
            log_time = self.log_times.get((partition, place))
            if log_time is None or log_time >= moment:
                return None if log_time is None else place
        return None

    def last_before(self, partition: int, moment: int) -> Coordinates:
        """Return the last message that was surely stored at that time, or the start of the log if there was none."""
        ends, places = self._ends.get(partition, ([], [()]))
        return places[bisect_left(ends, moment)]

    def first_after(self, partition: int, moment: int) -> Coordinates | None:
        """Return the first message that was surely not stored yet at that time."""
        begins, places = self._begins.get(partition, ([], [None]))
        return places[bisect_right(begins, moment)]

    def may_be_trimmed(self, partition: int, place: Coordinates, moment: int) -> bool:
        """Return whether a trim of this message had begun at that time."""
        return place < self.trimmed_until(partition, moment)

    def trimmed_until(self, partition: int, moment: int) -> Coordinates:
        """Return the position before which messages may have been trimmed at that time."""
        began, until = self._removed.get(partition, ([], [()]))
        return until[bisect_left(began, moment)]

    def entry(self, partition: int, place: Coordinates) -> Sequence[Coordinates]:
        """Return the messages of the same entry, which a backend that acks whole entries treats as one."""
        if self.guarantee.ack_granularity == "message":
            return [place]
        head = place[:-1]
        return [each for each in self.between(partition, head, (*head[:-1], head[-1] + 1)) if each[:-1] == head]


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
    """Return the position right after a message: ids may be sparse, so it equals no other id."""
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
            return _before_end(logs, partition, event, 0)
        case "last":
            return _before_end(logs, partition, event, target.number)
        case "time":
            return _at_time(logs, partition, target.number, event)


def _before_end(logs: SeenLogs, partition: int, event: Event, count: int) -> PositionRange:
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


def _at_time(logs: SeenLogs, partition: int, moment: int, event: Event) -> PositionRange:
    """Return the first message in log order that is not older.

    If that one may be trimmed, the position may lie as far as the first retained message that is not older: times
    need not ascend.
    """
    place = logs.first_at(partition, moment)
    if place is None:
        return ANYWHERE
    trimmed = logs.trimmed_until(partition, event.ended)
    if place >= trimmed:
        return PositionRange.exactly(place)
    return PositionRange(place, logs.first_retained_at(partition, moment, trimmed))
