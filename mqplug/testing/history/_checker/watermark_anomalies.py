"""Anomalies of watermarks and lags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug.testing.history._checker.anomaly import Anomaly
from mqplug.testing.history._checker.expected_positions import BEGIN
from mqplug.testing.history._checker.group_acks import GroupAcks
from mqplug.testing.history._checker.seen_logs import SeenLogs
from mqplug.testing.history._events.events import (
    BackendDisturbed,
    Coordinates,
    Event,
    LagRead,
    RecordSent,
    WatermarksRead,
)
from mqplug.testing.history._events.history import History

LOOK_BACK = 20  # messages before the end that a lag of 0 is compared with


class StoredSoFar:
    """What was surely stored at a moment; to be asked about ever later moments."""

    def __init__(self, history: History) -> None:
        self._sends = iter([event for event in history.events if isinstance(event.did, RecordSent) and event.ok])
        self._next = next(self._sends, None)
        self.last: dict[int, tuple[Coordinates, Event]] = {}

    def go_on(self, moment: int) -> None:
        """Take in what was stored until then."""
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
    """Watermarks that go down, or leave out what is stored."""
    stored = StoredSoFar(history)
    before: dict[int, tuple[Event, Coordinates, Coordinates]] = {}
    first: dict[int, Coordinates] = {}
    for partition, place in logs.final or ():
        first[partition] = min(place, first.get(partition, place))
    kills = [event for event in history.events if event.did == BackendDisturbed("kill")]
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
    """What went down from one question to the next. A kill may undo a trim: nobody promised that it lasts."""
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
        yield Anomaly("wrong watermark", "low lies behind high", (event,), partition, low)
    if partition in stored.last and high <= stored.last[partition][0]:
        place, send = stored.last[partition]
        yield Anomaly("wrong watermark", "it was stored, and lies behind high", (event, send), partition, place)
    if first is not None and low > first:
        yield Anomaly("wrong watermark", "it is still there, and lies before low", (event,), partition, first)


def wrong_lags(history: History, logs: SeenLogs, groups: GroupAcks) -> Iterator[Anomaly]:
    """A lag of 0, where the group had messages before it."""
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
    """The first message of those near the end that was there, and that nobody had acked."""
    for place in [*logs.between(partition, BEGIN, last)[-LOOK_BACK:], last]:
        if logs.stored_before(partition, place, event.began) and groups.surely_open(
            group, partition, place, event.ended
        ):
            shown = (event, *logs.seen[partition, place].values())
            text = f"{group} has it still to come, and was said to have no lag"
            yield Anomaly("wrong watermark", text, shown, partition, place)
            return
