"""Finds anomalies of the stored messages, and of watermarks and lags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import BEFORE_ALL, SeenLogs
from mqplug_testing.history._events import (
    BackendDisturbed,
    Coordinates,
    Event,
    LagRead,
    RecordSent,
    WatermarksRead,
)
from mqplug_testing.history._history import History

END_OF_TIME_US = 1 << 62


def lost_messages(logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield stored messages that the final read misses, and that were not trimmed."""
    if logs.final is None:
        return
    last: dict[int, Coordinates] = {}
    for partition, place in logs.final:
        last[partition] = max(place, last.get(partition, place))
    for (partition, place), by_value in logs.seen.items():
        if (partition, place) in logs.final or logs.may_be_trimmed(partition, place, END_OF_TIME_US):
            continue
        value, event = next(iter(by_value.items()))
        send = logs.sends.get(value)
        if any(where in logs.final for where in logs.read[value]):
            continue  # found under another id
        if (send is not None and send.ok) or place < last.get(partition, ()):
            shown = (send, event) if send is not None and send is not event else (event,)
            yield Anomaly("lost", f"{value} was stored, and the final read misses it", shown, partition, place)


def invented_messages(logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield received messages that were never sent, or provably not stored."""
    for value, places in logs.read.items():
        send = logs.sends.get(value)
        for (partition, place), event in places.items():
            if send is None:
                yield Anomaly("invented", f"no producer sent {value!r}", (event,), partition, place)
            elif send.outcome == "failed":
                text = f"the send of {value} provably failed"
                yield Anomaly("invented", text, (event, send), partition, place)


def payloads_under_one_id(logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield ids under which two messages were seen."""
    for (partition, place), by_value in logs.seen.items():
        if len(by_value) > 1:
            text = f"this id names {' and '.join(sorted(by_value))}"
            yield Anomaly("two payloads", text, tuple(by_value.values()), partition, place)


def duplicated_messages(history: History, logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield messages stored twice by a backend that promises to avoid that."""
    promise = logs.guarantee
    troubled = any(isinstance(event.did, BackendDisturbed) for event in history.events)
    if not (promise.idempotent_producer or (promise.exactly_once and not troubled)):
        return
    for value, places in logs.read.items():
        if len(places) > 1:
            (partition, place), event = list(places.items())[1]
            where = " and ".join(f"[{p}] {':'.join(map(str, each))}" for p, each in places)
            first = next(iter(places.values()))
            yield Anomaly("duplicated", f"{value} is stored at {where}", (event, first), partition, place)


def wrong_ids(logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield messages found under another id than their producer got."""
    for value, places in logs.read.items():
        send = logs.sends.get(value)
        if send is None or not isinstance(send.did, RecordSent) or send.did.id is None or send.did.partition is None:
            continue
        announced = (send.did.partition, send.did.id)
        if len(places) == 1 and announced not in places:
            (partition, place), event = next(iter(places.items()))
            text = f"{value} is read there, but its producer got [{announced[0]}] {':'.join(map(str, announced[1]))}"
            yield Anomaly("two ids", text, (event, send), partition, place)


def reordered_messages(logs: SeenLogs) -> Iterator[Anomaly]:
    """Yield messages of one producer that are stored in another order than they were sent."""
    for partition in logs.partitions:
        highest: dict[str, tuple[int, Event]] = {}
        known: set[str] = set()
        for place in logs.order(partition):
            send = logs.send_of(partition, place)
            if send is None or not isinstance(send.did, RecordSent) or send.did.value in known:
                continue  # of duplicates, the first counts
            known.add(send.did.value)
            number, before = highest.get(send.did.producer, (-1, send))
            if send.did.number < number:
                yield _out_of_order(logs, partition, place, send, before)
            else:
                highest[send.did.producer] = (send.did.number, send)


def _out_of_order(logs: SeenLogs, partition: int, place: Coordinates, send: Event, before: Event) -> Anomaly:
    assert isinstance(send.did, RecordSent)
    assert isinstance(before.did, RecordSent)
    text = f"{send.did.value} is stored after {before.did.value}, which was sent later"
    reads = [event for each in (send.did, before.did) for event in logs.read[each.value].values()]
    return Anomaly("reordered", text, (send, before, *reads), partition, place)


LAG_LOOK_BACK_MESSAGES = 20  # checked before the end at a lag of 0
UNDOING_TRIMS = (BackendDisturbed("kill"), BackendDisturbed("kill of a node"))


class StoredSoFar:
    """The last message of each partition that was surely stored at a moment; moments only go up."""

    def __init__(self, history: History) -> None:
        self._sends = iter([event for event in history.events if isinstance(event.did, RecordSent) and event.ok])
        self._next = next(self._sends, None)
        self.last: dict[int, tuple[Coordinates, Event]] = {}

    def advance_to(self, moment: int) -> None:
        """Include the messages stored until then."""
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
        stored.advance_to(event.began)
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
        stored.advance_to(event.began)
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
