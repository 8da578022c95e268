"""A recording: numbers and times calls, decides their outcomes, and keeps them within a limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import Lock, current_thread
from typing import Any, Final, Protocol

import attrs

from mqplug import ConnectError, Error, Log, OutcomeUnknown, Position, Timeout
from mqplug.spi import GroupPosition
from mqplug_testing.recording._calls import Call, Outcome, Payloads

UNPROVEN_ERRORS: Final = (ConnectError, OutcomeUnknown, Timeout)


class CallStorage(Protocol):
    """A place that keeps calls. A call with the number of an earlier one replaces it."""

    def put(self, call: Call) -> None: ...
    def calls(self) -> Iterable[Call]: ...


class CallsInMemory:
    """Calls in memory, by number."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def put(self, call: Call) -> None:
        self._calls[call.number] = call

    def calls(self) -> Iterable[Call]:
        return list(self._calls.values())


class Recording:
    """The calls of one recorder. Thread-safe. Beyond ``limit``, one last call says so, and later calls are dropped."""

    def __init__(self, storage: CallStorage, payloads: Payloads, limit: int) -> None:
        self.storage = storage
        self.payloads: Payloads = payloads
        self.run = uuid.uuid4().hex[:8]
        self.full = False
        self._limit = limit
        self._left = limit
        self._numbers = count(1)
        self._members = count(1)
        self._lock = Lock()

    def member(self, kind: str, of: str = "") -> str:
        """Return a name for a new client, producer or consumer."""
        return f"{of}{'/' if of else ''}{kind}-{next(self._members)}"

    def begin(self, member: str, operation: str, *, lasting: bool, **known: Any) -> Call:
        """Begin a call now. A ``lasting`` one is kept at once, in case it never ends."""
        call = Call(
            run=self.run, number=next(self._numbers), member=member, thread=current_thread().name,
            operation=operation, began=time.monotonic(), **known,
        )  # fmt: skip
        if lasting:
            self._put(call, call.size)
        return call

    def end(self, call: Call, outcome: Outcome, *, lasting: bool, **found: Any) -> None:
        """End a call now."""
        ended = attrs.evolve(call, ended=time.monotonic(), outcome=outcome, **found)
        self._put(ended, ended.size - call.size if lasting else ended.size)

    @contextmanager
    def call(self, member: str, operation: str, *, lasting: bool = False, **known: Any) -> Iterator[dict[str, Any]]:
        """Record the block as one call. The block adds the call's results to the dictionary."""
        call = self.begin(member, operation, lasting=lasting, **known)
        found: dict[str, Any] = {}
        try:
            yield found
        except BaseException as error:
            outcome: Outcome = "unknown" if lasting and not _proves_no_change(error) else "failed"
            self.end(call, outcome, lasting=lasting, error=error_summary(error), **found)
            raise
        self.end(call, "ok", lasting=lasting, **found)

    def _put(self, call: Call, size: int) -> None:
        with self._lock:
            if self.full:
                return
            self._left -= size
            if self._left < 0:
                self.full = True
                call = attrs.evolve(
                    Call(run=call.run, number=next(self._numbers), member=call.member, thread=call.thread,
                         operation="recording", began=call.began, ended=time.monotonic()),
                    outcome="failed", error=f"full: more than {self._limit} calls and messages",
                )  # fmt: skip
            self.storage.put(call)


def _proves_no_change(error: BaseException) -> bool:
    """Return whether this error proves that the call changed nothing."""
    return isinstance(error, Error | TypeError | ValueError) and not isinstance(error, UNPROVEN_ERRORS)


def error_summary(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {error}"


def as_group_positions(positions: Mapping[Log, Position]) -> tuple[GroupPosition, ...]:
    """Return plain positions as group positions, the form that a call has."""
    return tuple(map(GroupPosition, positions.values()))


def record_call(
    recording: Recording, member: str, operation: str, call: Callable[[float], None], timeout: float
) -> None:
    """Make a call without an answer, and record it."""
    with recording.call(member, operation, lasting=True):
        call(timeout)
