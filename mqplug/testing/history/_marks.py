"""Anomalies of watermarks and lags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug.testing.history._anomaly import Anomaly
from mqplug.testing.history._events import Event, Lagged, Marked, Place, Sent, Troubled
from mqplug.testing.history._groups import Groups
from mqplug.testing.history._history import History
from mqplug.testing.history._landings import BEGIN
from mqplug.testing.history._logs import Logs

LOOK_BACK = 20  # messages before the end that a lag of 0 is compared with


class Stored:
    """What was surely stored at a moment; to be asked about ever later moments."""

    def __init__(self, history: History) -> None:
        self._sends = iter([event for event in history.events if isinstance(event.did, Sent) and event.ok])
        self._next = next(self._sends, None)
        self.last: dict[int, tuple[Place, Event]] = {}

    def go_on(self, moment: int) -> None:
        """Take in what was stored until then."""
        while self._next is not None and self._next.ended < moment:
            sent = self._next.did
            assert isinstance(sent, Sent)
            if sent.partition is not None and sent.id is not None:
                known = self.last.get(sent.partition)
                self.last[sent.partition] = max(known or (sent.id, self._next), (sent.id, self._next), key=_place)
            self._next = next(self._sends, None)


def _place(stored: tuple[Place, Event]) -> Place:
    return stored[0]


def watermarks(history: History, logs: Logs) -> Iterator[Anomaly]:
    """Watermarks that go down, or leave out what is stored."""
    stored = Stored(history)
    before: dict[int, tuple[Event, Place, Place]] = {}
    first: dict[int, Place] = {}
    for partition, place in logs.final or ():
        first[partition] = min(place, first.get(partition, place))
    kills = [event for event in history.events if event.did == Troubled("kill")]
    asked = [event for event in history.events if isinstance(event.did, Marked) and event.ok]
    for event in sorted(asked, key=lambda each: each.began):
        assert isinstance(event.did, Marked)
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
    low: Place,
    high: Place,
    before: tuple[Event, Place, Place] | None,
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
    event: Event, partition: int, low: Place, high: Place, stored: Stored, first: Place | None
) -> Iterator[Anomaly]:
    if low > high:
        yield Anomaly("wrong watermark", "low lies behind high", (event,), partition, low)
    if partition in stored.last and high <= stored.last[partition][0]:
        place, send = stored.last[partition]
        yield Anomaly("wrong watermark", "it was stored, and lies behind high", (event, send), partition, place)
    if first is not None and low > first:
        yield Anomaly("wrong watermark", "it is still there, and lies before low", (event,), partition, first)


def lags(history: History, logs: Logs, groups: Groups) -> Iterator[Anomaly]:
    """A lag of 0, where the group had messages before it."""
    stored = Stored(history)
    asked = [event for event in history.events if isinstance(event.did, Lagged) and event.ok]
    for event in sorted(asked, key=lambda each: each.began):
        assert isinstance(event.did, Lagged)
        stored.go_on(event.began)
        for partition, lag in event.did.lags:
            if not lag and partition in stored.last:
                last = stored.last[partition][0]
                yield from _has_lag(event, event.did.group, partition, last, logs, groups)


def _has_lag(event: Event, group: str, partition: int, last: Place, logs: Logs, groups: Groups) -> Iterator[Anomaly]:
    """The first message of those near the end that was there, and that nobody had acked."""
    for place in [*logs.between(partition, BEGIN, last)[-LOOK_BACK:], last]:
        if logs.stored_before(partition, place, event.began) and groups.surely_open(
            group, partition, place, event.ended
        ):
            shown = (event, *logs.seen[partition, place].values())
            text = f"{group} has it still to come, and was said to have no lag"
            yield Anomaly("wrong watermark", text, shown, partition, place)
            return
