"""Finds anomalies of watermarks and lags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.expected_positions import BEFORE_ALL
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import (
    BackendDisturbed,
    Coordinates,
    Event,
    LagRead,
    RecordSent,
    WatermarksRead,
)
from mqplug_testing.history._events.history import History

LAG_LOOK_BACK_MESSAGES = 20  # checked before the end at a lag of 0
UNDOING_TRIMS = (BackendDisturbed("kill"), BackendDisturbed("kill of a node"))


class StoredSoFar:
    """The last message of each partition that was surely stored at a moment; moments only go up."""

    def __init__(self, history: History) -> None:
        self._sends = iter([event for event in history.events if isinstance(event.did, RecordSent) and event.ok])
        self._next = next(self._sends, None)
        self.last: dict[int, tuple[Coordinates, Event]] = {}

    def go_on(self, moment: int) -> None:
        """Take in the messages stored until then."""
        while self._next is not None and self._next.ended < moment:
            sent = self._next.did
            assert isinstance(sent, RecordSent)
            if sent.partition is not None and sent.id is not None:
                known = self.last.get(sent.partition)
                self.last[sent.partition] = max(known or (sent.id, self._next), (sent.id, self._next), key=_place)
            self._next = next(self._sends, None)


def _place(stored: tuple[Coordinates, Event]) -> Coordinates:
    return stored[0]


def wrong_watermarks(history: History, logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield watermarks that go down, or exclude stored messages."""
    stored = StoredSoFar(history)
    before: dict[int, tuple[Event, Coordinates, Coordinates]] = {}
    first: dict[int, Coordinates] = {}
    for partition, place in logs.final or ():
        first[partition] = min(place, first.get(partition, place))
    kills = [event for event in history.events if event.did in UNDOING_TRIMS]
    asked = [event for event in history.events if isinstance(event.did, WatermarksRead) and event.ok]
    for event in sorted(asked, key=lambda each: each.began):
        assert isinstance(event.did, WatermarksRead)
        stored.go_on(event.began)
        undone = any(kill.ended >= event.began for kill in kills)
        for partition, low, high in event.did.marks:
            earlier = before.get(partition)
            yield from _went_down(event, partition, low, high, earlier, kills)
            yield from _denies(event, partition, low, high, stored, None if undone else first.get(partition))
            before[partition] = (event, low, high)


def _went_down(
    event: Event,
    partition: int,
    low: Coordinates,
    high: Coordinates,
    before: tuple[Event, Coordinates, Coordinates] | None,
    kills: Sequence[Event],
) -> Iterator[Anomaly]:
    """Yield the watermarks that went down between two calls. A kill may undo a trim: no promise says that it lasts."""
    if before is None or before[0].ended > event.began:
        return
    earlier, was_low, was_high = before
    killed = any(kill.ended >= earlier.began and kill.began <= event.ended for kill in kills)
    for name, now, was in (("low", low, was_low), ("high", high, was_high)):
        if now < was and not (name == "low" and killed):
            text = f"{name} was {':'.join(map(str, was))} before"
            yield Anomaly("watermark went down", text, (event, earlier), partition, now)


def _denies(
    event: Event, partition: int, low: Coordinates, high: Coordinates, stored: StoredSoFar, first: Coordinates | None
) -> Iterator[Anomaly]:
    if low > high:
        yield Anomaly("wrong watermark", "low is greater than high", (event,), partition, low)
    if partition in stored.last and high <= stored.last[partition][0]:
        place, send = stored.last[partition]
        yield Anomaly("wrong watermark", "it was stored, and is not below high", (event, send), partition, place)
    if first is not None and low > first:
        yield Anomaly("wrong watermark", "it is still stored, and is below low", (event,), partition, first)


def wrong_lags(history: History, logs: SeenLogs, groups: GroupAcks) -> Iterator[Anomaly]:
    """Yield lags of 0 of groups with outstanding messages."""
    stored = StoredSoFar(history)
    asked = [event for event in history.events if isinstance(event.did, LagRead) and event.ok]
    for event in sorted(asked, key=lambda each: each.began):
        assert isinstance(event.did, LagRead)
        stored.go_on(event.began)
        for partition, lag in event.did.lags:
            if not lag and partition in stored.last:
                last = stored.last[partition][0]
                yield from _has_lag(event, event.did.group, partition, last, logs, groups)


def _has_lag(
    event: Event, group: str, partition: int, last: Coordinates, logs: SeenLogs, groups: GroupAcks
) -> Iterator[Anomaly]:
    """Yield the first message near the end that was surely stored and unacked."""
    for place in [*logs.between(partition, BEFORE_ALL, last)[-LAG_LOOK_BACK_MESSAGES:], last]:
        if logs.stored_before(partition, place, event.began) and groups.surely_open(
            group, partition, place, event.ended
        ):
            shown = (event, *logs.seen[partition, place].values())
            text = f"it is outstanding for {group}, whose lag was 0"
            yield Anomaly("wrong watermark", text, shown, partition, place)
            return
