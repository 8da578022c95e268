"""A history: the events of a run, recorded as they happen, the backend's guarantees, and their file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import attrs
from cattrs import Converter
from cattrs.strategies import configure_tagged_union

from mqplug import (
    Capabilities,
    ConcurrentUse,
    ConfigError,
    ConsumerBusy,
    Error,
    GroupNotFound,
    InvalidMessageId,
    NotAssigned,
    PositionLost,
    TopicNotFound,
    Unsupported,
)
from mqplug_testing.history._events import TAGS, CallOutcome, Event, RunAction

HISTORY_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class Guarantee:
    """The promises of a backend that decide which events are anomalies.

    ``tells_trim``: a consumer overtaken by retention gets an error. ``hands_out_current``: a member never delivers a
    message that another member acked and stored before the request.
    """

    idempotent_producer: bool = True
    exactly_once: bool = True
    assignment_events: bool = True
    ack_granularity: Literal["message", "entry"] = "message"
    tells_trim: bool = True
    hands_out_current: bool = False

    @classmethod
    def of(cls, able: Capabilities, *, hands_out_current: bool = False) -> Guarantee:
        """Return the guarantee that follows from capabilities. A backend without ``trim`` need not report a trim to a
        group.
        """
        return cls(
            idempotent_producer=able.idempotent_producer,
            exactly_once=able.exactly_once,
            assignment_events=able.assignment_events,
            ack_granularity=able.ack_granularity,
            tells_trim=able.trim,
            hands_out_current=hands_out_current,
        )


@attrs.frozen
class History:
    """The events of a run, in the order in which they ended."""

    events: Sequence[Event] = attrs.field(repr=lambda events: f"{len(events)} events")
    guarantee: Guarantee = Guarantee()
    seed: str = ""

    def only(self, events: Iterable[Event]) -> History:
        """Return the same run with only these events."""
        return attrs.evolve(self, events=tuple(events))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON lines: a head, and a line for each event."""
        head = {"mqplug-history": HISTORY_VERSION, "seed": self.seed, "guarantee": attrs.asdict(self.guarantee)}
        lines = (json.dumps(line, separators=(",", ":")) for line in (head, *map(to_json, self.events)))
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> History:
        """Read a file that ``save`` wrote."""
        with Path(path).open(encoding="utf-8") as file:
            head = json.loads(file.readline())
            version = head.get("mqplug-history") if isinstance(head, dict) else None
            if version != HISTORY_VERSION:
                raise ValueError(f"{path} is not a history of version {HISTORY_VERSION}: its version is {version!r}")
            events = tuple(from_json(json.loads(line)) for line in file)
        return cls(events, _converter.structure(head["guarantee"], Guarantee), head["seed"])


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as it is stored in a line of a file."""
    made: dict[str, Any] = _converter.unstructure(event)
    return made


def from_json(line: Any) -> Event:
    """Return the event of a line of a file."""
    return _converter.structure(line, Event)


_converter = Converter(omit_if_default=True)
configure_tagged_union(RunAction, _converter, tag_generator=TAGS.__getitem__, tag_name="did")


REFUSALS: Final = (
    ConcurrentUse, ConfigError, ConsumerBusy, GroupNotFound, InvalidMessageId, NotAssigned, PositionLost,
    TopicNotFound, Unsupported,
)  # fmt: skip


class HistoryRecorder:
    """The events of all actors of a run. Thread-safe."""

    def __init__(self, limit: int, began: int | None = None) -> None:
        self._limit = limit
        self.origin = time.monotonic_ns() if began is None else began
        self._lock = Lock()
        self.events: list[Event] = []

    def now(self) -> int:
        """Return the microseconds since the run began."""
        return (time.monotonic_ns() - self.origin) // 1000

    def begin(self, actor: str, did: RunAction) -> int:
        """Announce a call that may take effect even if its process dies. Return the time."""
        return self.now()

    @property
    def full(self) -> bool:
        """Whether the limit is reached, so that no new work begins. Calls under way are still recorded."""
        return len(self.events) >= self._limit

    def add(self, actor: str, did: RunAction, began: int | None = None, error: Error | None = None) -> None:
        """Record a call and its outcome."""
        ended = self.now()
        outcome: CallOutcome = "ok" if error is None else outcome_of(error)
        error_text = "" if error is None else f"{type(error).__name__}: {error.message}"
        self.note(Event(0, actor, ended if began is None else began, ended, did, outcome, error_text))

    def add_sent(self, actor: str, did: RunAction, began: int, outcome: CallOutcome, error: str = "") -> None:
        """Record the outcome of a record."""
        self.note(Event(0, actor, began, self.now(), did, outcome, error))

    def note(self, event: Event) -> None:
        """Record an event under the next number."""
        with self._lock:
            self.events.append(attrs.evolve(event, number=len(self.events)))


def outcome_of(error: Error) -> CallOutcome:
    """Return "failed" if this error proves that the call had no effect, else "unknown"."""
    return "failed" if isinstance(error, REFUSALS) else "unknown"
