"""The checker: returns the anomalies of a history. It opens nothing and connects to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from mqplug_testing.history._checker import delivery_anomalies, group_anomalies, storage_anomalies, watermark_anomalies
from mqplug_testing.history._checker.anomaly import KINDS, Anomaly
from mqplug_testing.history._checker.consumer_epochs import Epochs
from mqplug_testing.history._checker.group_acks import GroupAcks
from mqplug_testing.history._checker.seen_logs import SeenLogs
from mqplug_testing.history._events.events import AllMessagesRead, GroupDrained, UnexpectedError
from mqplug_testing.history._events.history import History


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
        group_anomalies.returned_acks(logs, epochs, groups),
        group_anomalies.forgotten_messages(history, logs, epochs, groups),
        group_anomalies.wrong_positions(history, logs, groups),
        watermark_anomalies.wrong_watermarks(history, logs),
        watermark_anomalies.wrong_lags(history, logs, groups),
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
