"""The verdict of a run: one line, and the worst few examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from mqplug_testing.history._checker.anomaly import KINDS, Anomaly
from mqplug_testing.history._events import BackendDisturbed, Event, MessageReceived, RecordSent
from mqplug_testing.history._history import History

MAX_EXAMPLES = 3
CONTEXT_EVENTS = 3  # shown of the same actor before and after


@attrs.frozen
class Example:
    """An anomaly, with the shortest history found that shows it, and the events of its actor around it."""

    anomaly: Anomaly
    shortest: tuple[Event, ...]
    around: tuple[Event, ...]

    def __str__(self) -> str:
        shown = [str(self.anomaly), *(f"    {event}" for event in self.shortest)]
        if self.around:
            shown += ["  and around it:", *(f"    {event}" for event in self.around)]
        return "\n".join(shown)


@attrs.frozen
class RunCounts:
    """The counts of a run: records, deliveries, faults and seconds."""

    sent: int
    stored: int
    unknown: int
    unknown_stored: int
    twice: int
    received: int
    again: int
    faults: int
    seconds: float = 0.0

    @classmethod
    def of(cls, history: History) -> RunCounts:
        """Count the events of a history."""
        sends = [event for event in history.events if isinstance(event.did, RecordSent)]
        places: dict[str, set[object]] = {}
        deliveries: Counter[tuple[object, ...]] = Counter()
        for event in history.events:
            if isinstance(event.did, MessageReceived):
                places.setdefault(event.did.value, set()).add((event.did.partition, event.did.id))
                deliveries[event.did.consumer, event.did.partition, event.did.id] += 1
        unknown = [event for event in sends if event.outcome == "unknown"]
        return cls(
            sent=len(sends),
            stored=sum(event.ok for event in sends),
            unknown=len(unknown),
            unknown_stored=sum(isinstance(event.did, RecordSent) and event.did.value in places for event in unknown),
            twice=sum(len(each) > 1 for each in places.values()),
            received=deliveries.total(),
            again=deliveries.total() - len(deliveries),
            faults=sum(isinstance(event.did, BackendDisturbed) for event in history.events),
            seconds=max((event.ended for event in history.events), default=0) / 1_000_000,
        )


@attrs.frozen
class Verdict:
    """The result of a run. ``anomalies`` is empty if the backend kept its promises."""

    history: History = attrs.field(repr=False)
    anomalies: Sequence[Anomaly]
    counts: RunCounts
    injected: int = 0
    examples: Sequence[Example] = ()
    smaller: str = ""

    @property
    def delivery(self) -> str:
        """The delivery guarantee that the run observed: exactly, at least or at most once, or none of them."""
        kinds = {anomaly.kind for anomaly in self.anomalies}
        if kinds - {"lost", "forgotten", "duplicated"}:
            return "broken"
        lost = bool(kinds & {"lost", "forgotten"})
        twice = bool(self.counts.twice)
        return {(False, False): "exactly once", (False, True): "at least once", (True, False): "at most once"}.get(
            (lost, twice), "neither at least nor at most once"
        )

    @property
    def line(self) -> str:
        """The verdict in one line."""
        c = self.counts
        kinds = Counter(anomaly.kind for anomaly in self.anomalies)
        found = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]) or "no anomaly"
        return (
            f"{self.delivery}: {found}; {c.sent} sent, {c.stored} stored, {c.unknown} unknown ({c.unknown_stored} of "
            f"them stored), {c.twice} stored twice, {c.received} received, {c.faults} faults and {self.injected} "
            f"injected in {c.seconds:.0f} s; seed {self.history.seed}"
        )

    def __str__(self) -> str:
        """Return the line and the examples, and repeat the line: only the end of a long output may be kept."""
        if not self.anomalies:
            return self.line
        more = len(self.anomalies) - len(self.examples)
        rest = [f"and {more} more"] if more > 0 and self.examples else []
        rest += [self.smaller] if self.smaller else []
        worst = [str(self.anomalies[0])] if self.examples else []
        again = ["the worst, again:", *worst, self.line, f"repeat it with seed {self.history.seed}"]
        return "\n".join([self.line, *map(str, self.examples), *rest, *again])


def events_around(history: History, anomaly: Anomaly) -> tuple[Event, ...]:
    """Return the events of the witness's actor just before and after it."""
    if not anomaly.events:
        return ()
    witness = anomaly.events[0]
    mine = [event for event in history.events if event.actor == witness.actor]
    index = next((i for i, event in enumerate(mine) if event.number == witness.number), 0)
    return tuple(mine[max(0, index - CONTEXT_EVENTS) : index + CONTEXT_EVENTS + 1])
