"""A history: all that happened in a run, and what the backend promises. It can be kept in a file."""

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
from mqplug.testing.history._events import Action, Event, Outcome

VERSION: Final = 1
REFUSALS: Final = (
    ConcurrentUse, ConfigError, ConsumerBusy, GroupNotFound, InvalidMessageId, NotAssigned, PositionLost,
    TopicNotFound, Unsupported,
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Guarantee:
    """What the backend promises, as far as it decides what is an anomaly.

    ``tells_trim``: a consumer that retention overtook hears of it. ``hands_out_current``: a member hands out nothing
    that another one acked, and stored, before it was asked for.
    """

    idempotent_producer: bool = True
    exactly_once: bool = True
    assignment_events: bool = True
    ack_granularity: Literal["message", "entry"] = "message"
    tells_trim: bool = True
    hands_out_current: bool = False

    @classmethod
    def of(cls, able: Capabilities, *, hands_out_current: bool = False) -> Guarantee:
        """What follows from capabilities. A backend that cannot be asked to trim need not tell a group of it."""
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
        """The same run, of which nothing is known but these events."""
        return attrs.evolve(self, events=tuple(events))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON lines: a head, and a line for each event."""
        head = {"mqplug-history": VERSION, "seed": self.seed, "guarantee": attrs.asdict(self.guarantee)}
        lines = (json.dumps(line, separators=(",", ":")) for line in (head, *map(to_json, self.events)))
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> History:
        """Read what ``save`` wrote."""
        with Path(path).open(encoding="utf-8") as file:
            head = json.loads(file.readline())
            version = head.get("mqplug-history") if isinstance(head, dict) else None
            if version != VERSION:
                raise ValueError(f"{path} is no history of version {VERSION}: it says {version!r}")
            events = tuple(from_json(json.loads(line)) for line in file)
        return cls(events, _converter.structure(head["guarantee"], Guarantee), head["seed"])


class Recorder:
    """Where all actors of a run write down what they did. Thread-safe."""

    def __init__(self, limit: int, began: int | None = None) -> None:
        self._limit = limit
        self.origin = time.monotonic_ns() if began is None else began
        self._lock = Lock()
        self.events: list[Event] = []

    def now(self) -> int:
        """Microseconds since the run began."""
        return (time.monotonic_ns() - self.origin) // 1000

    def begin(self, actor: str, did: Action) -> int:
        """Something begins that may be done even if nobody is left to say so. Returns when."""
        return self.now()

    @property
    def full(self) -> bool:
        """Whether there is no room for more work. What is under way is written down all the same."""
        return len(self.events) >= self._limit

    def add(self, actor: str, did: Action, began: int | None = None, error: Error | None = None) -> None:
        """Write down what was done, and what came of it."""
        ended = self.now()
        outcome: Outcome = "ok" if error is None else outcome_of(error)
        told = "" if error is None else f"{type(error).__name__}: {error.message}"
        self.note(Event(0, actor, ended if began is None else began, ended, did, outcome, told))

    def add_sent(self, actor: str, did: Action, began: int, outcome: Outcome, error: str = "") -> None:
        """Write down what came of a record."""
        self.note(Event(0, actor, began, self.now(), did, outcome, error))

    def note(self, event: Event) -> None:
        """Write down an event, under the next number."""
        with self._lock:
            self.events.append(attrs.evolve(event, number=len(self.events)))


def outcome_of(error: Error) -> Outcome:
    """Whether an error of a call proves that nothing was done."""
    return "failed" if isinstance(error, REFUSALS) else "unknown"


def to_json(event: Event) -> dict[str, Any]:
    """An event as a line of a file has it."""
    made: dict[str, Any] = _converter.unstructure(event)
    return made


def from_json(line: Any) -> Event:
    """The event of such a line."""
    return _converter.structure(line, Event)


_converter = Converter(omit_if_default=True)
configure_tagged_union(Action, _converter, tag_name="did")
