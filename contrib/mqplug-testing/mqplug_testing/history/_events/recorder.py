"""Records the events of a run as they happen."""

from __future__ import annotations

import time
from threading import Lock
from typing import Final

import attrs

from mqplug import (
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
from mqplug_testing.history._events.events import CallOutcome, Event, RunAction

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
