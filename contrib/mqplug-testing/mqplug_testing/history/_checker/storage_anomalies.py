"""Finds anomalies of the stored messages."""

from __future__ import annotations

from collections.abc import Iterator

from mqplug_testing.history._checker.anomaly import Anomaly
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import BackendDisturbed, Coordinates, Event, RecordSent
from mqplug_testing.history._events.history import History

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
