"""The checker: returns the anomalies of a history, and shrinks a history that shows one.

It opens nothing and connects to nothing. Shrinking is delta debugging, with the checker as the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from mqplug.spi import Deadline
from mqplug_testing.history._checker import delivery_anomalies, storage_anomalies
from mqplug_testing.history._checker.anomaly import KINDS, Anomaly
from mqplug_testing.history._checker.consumer_epochs import Epochs
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events import AllMessagesRead, ConsumerOpened, Event, GroupDrained, UnexpectedError
from mqplug_testing.history._history import History


def check(history: History) -> list[Anomaly]:
    """Return all anomalies of a history, the worst kinds first, each kind in the order of the events."""
    logs = SeenLogs(history)
    epochs = Epochs(history, logs)
    groups = GroupAcks(history, logs, epochs)
    found = chain(
        storage_anomalies.lost_messages(logs),
        storage_anomalies.invented_messages(logs),
        storage_anomalies.payloads_under_one_id(logs),
        storage_anomalies.wrong_ids(logs),
        storage_anomalies.duplicated_messages(history, logs),
        storage_anomalies.reordered_messages(logs),
        delivery_anomalies.Deliveries(logs, epochs, groups).anomalies(),
        delivery_anomalies.wrong_seeks(history, logs),
        delivery_anomalies.returned_acks(logs, epochs, groups),
        delivery_anomalies.forgotten_messages(history, logs, epochs, groups),
        delivery_anomalies.wrong_positions(history, logs, groups),
        storage_anomalies.wrong_watermarks(history, logs),
        storage_anomalies.wrong_lags(history, logs, groups),
        _what_broke(history),
    )
    rank = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(found, key=lambda each: (rank[each.kind], each.events[0].number if each.events else 0))


def _what_broke(history: History) -> Iterator[Anomaly]:
    for event in history.events:
        match event.did:
            case UnexpectedError(what=what):
                yield Anomaly("broke", what, (event,))
            case AllMessagesRead() | GroupDrained() if not event.ok:
                yield Anomaly("unfinished", event.error, (event,))
            case _:
                pass


def shrink(history: History, anomaly: Anomaly, *, seconds: float = 5.0) -> tuple[Event, ...]:
    """Return a few events of the history in which the same anomaly is found.

    Events that would excuse it were searched in the whole history: the result contains only those that show it. At the
    timeout, the shortest result found is returned.
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
