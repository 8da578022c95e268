"""The checker: a history in, anomalies out. It opens nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from mqplug.testing.history import _delivered, _marks, _settled, _stored
from mqplug.testing.history._anomaly import KINDS, Anomaly
from mqplug.testing.history._epochs import Epochs
from mqplug.testing.history._events import Broke, Drained, ReadWhole
from mqplug.testing.history._groups import Groups
from mqplug.testing.history._history import History
from mqplug.testing.history._logs import Logs


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history, the worst kinds first, each kind in the order in which it was met."""
    logs = Logs(history)
    epochs = Epochs(history, logs)
    groups = Groups(history, logs, epochs)
    found = chain(
        _stored.lost(logs),
        _stored.invented(logs),
        _stored.two_payloads(logs),
        _stored.two_ids(logs),
        _stored.duplicated(history, logs),
        _stored.reordered(logs),
        _delivered.Deliveries(logs, epochs, groups).anomalies(),
        _delivered.seeks(history, logs),
        _settled.acks_came_back(logs, epochs, groups),
        _settled.forgotten(history, logs, epochs, groups),
        _settled.positions(history, logs, groups),
        _marks.watermarks(history, logs),
        _marks.lags(history, logs, groups),
        _what_broke(history),
    )
    rank = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(found, key=lambda each: (rank[each.kind], each.events[0].number if each.events else 0))


def _what_broke(history: History) -> Iterator[Anomaly]:
    for event in history.events:
        match event.did:
            case Broke(what=what):
                yield Anomaly("broke", what, (event,))
            case ReadWhole() | Drained() if not event.ok:
                yield Anomaly("unfinished", event.error, (event,))
            case _:
                pass
