"""The handle of a record, the record that is sent by itself, which is its own handle, and how callers wait for both."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from mqplug._base.bell import Bell
from mqplug._base.deadline import Deadline, check_timeout
from mqplug._model.errors import Error
from mqplug._model.ids import MessageId
from mqplug._model.outcome import SendTimeout, in_doubt

if TYPE_CHECKING:
    from mqplug._model.log import Log
    from mqplug._model.message import Headers
    from mqplug._model.text import Numbers

    IdParts = tuple[Log, Numbers, Numbers]
    """Log, coordinates and detail: the parts of an id."""

PUMP_SLICE_S = 0.1  # the longest wait of a driver, and so of Ctrl-C and deadlines


class AwaitedSend(Protocol):
    """A record, or a run of records, whose outcome a caller waits for."""

    waiter: Bell | None

    @property
    def awaited(self) -> AwaitedSend | None:
        """The part to wait for now; None once all is settled."""
        ...


Wait = Callable[[AwaitedSend, Deadline], None]
"""A function that waits until this is settled or the time is up."""


class SendHandle:
    """The handle of a submitted record. It has no lock; a waiter adds a bell when it waits."""

    __slots__ = ()

    topic: str
    outcome: IdParts | Error | None
    wait: Wait
    was_seen: bool

    def result(self, timeout: float | None = 30) -> MessageId:
        """Wait for the id that the consumer will see.

        Raises an error which means that the record was not stored, or ``OutcomeUnknown`` if it may or may not be
        stored. When the time is up, raises ``SendTimeout``, which is both ``OutcomeUnknown`` and ``Timeout``; the send
        continues.
        """
        if timeout != 30:
            check_timeout(timeout)
        outcome = self.outcome
        if outcome is None:
            self.wait(self, Deadline(timeout))
            outcome = self.outcome
        if outcome is None:
            raise self.timed_out()
        if isinstance(outcome, Error):
            self.note_seen()
            raise outcome.with_traceback(None)
        return MessageId(*outcome)

    @property
    def done(self) -> bool:
        """Whether the record is settled, even if its outcome is unknown."""
        return self.outcome is not None

    @property
    def error(self) -> Error | None:
        """The error that kept the record from being stored or left it in doubt; None if there is none yet."""
        outcome = self.outcome
        return outcome if isinstance(outcome, Error) else None

    def timed_out(self) -> SendTimeout:
        """Return the error for a wait that timed out."""
        error = SendTimeout(
            "no answer in time: the message may or may not be stored", topic=self.topic, operation="send",
            fix="Check error.handle for the late result before sending it again",
        )  # fmt: skip
        error.handle = self
        return error

    waiter: Bell | None

    @property
    def awaited(self) -> AwaitedSend | None:
        """The object to wait for now; None once the record is settled."""
        raise NotImplementedError

    def note_seen(self) -> None:
        """Note that its failure was raised or is reported elsewhere, so ``flush`` and ``close`` do not raise it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        outcome = self.outcome
        if outcome is None:
            return f"<SendHandle {self.topic}: on its way>"
        state = type(outcome).__name__ if isinstance(outcome, Error) else "stored"
        return f"<SendHandle {self.topic}: {state}>"


class SingleSend(SendHandle):
    """A record that is sent by itself, in the form that drivers get."""

    __slots__ = (
        "headers",
        "key",
        "outcome",
        "partition",
        "size",
        "timestamp",
        "topic",
        "value",
        "wait",
        "waiter",
        "was_seen",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp: int | None,
        size: int,
        wait: Wait,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.value = value
        self.key = key
        self.headers = headers
        self.timestamp = timestamp
        self.size = size
        self.wait = wait
        self.was_seen = False
        self.waiter: Bell | None = None
        self.outcome: IdParts | Error | None = None

    @property
    def awaited(self) -> SingleSend | None:
        """The record itself until it is settled, then None."""
        return self if self.outcome is None else None

    def note_seen(self) -> None:
        """As ``SendHandle.note_seen``."""
        self.was_seen = True

    # for drivers; a record is settled once, and later calls change nothing

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """Settle the record as stored, with this id."""
        if self.outcome is None:
            self.outcome = (log, coordinates, detail)
            if self.waiter is not None:
                self.waiter.ring()

    def failed(self, error: Error) -> None:
        """Settle the record as certainly not stored."""
        if self.outcome is None:
            self.outcome = error.at(topic=self.topic, operation="send")
            if self.waiter is not None:
                self.waiter.ring()

    def unknown(self, error: Error) -> None:
        """Settle the record as in doubt: it may or may not be stored."""
        self.failed(in_doubt(error))


class Pump:
    """The driver's reports, served by one waiter at a time. The others sleep until it is their turn."""

    def __init__(self, pump: Callable[[float], None]) -> None:
        self._pump = pump
        self._serving = Lock()
        self._sleepers: set[Bell] = set()

    def wait(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        """Wait until this is settled or the time is up. With no time at all, serve reports once."""
        while not self._serving.acquire(blocking=False):
            self._sleep(wanted, deadline)
            if wanted.awaited is None or deadline.expired:
                return
        try:
            while wanted.awaited is not None:
                left = deadline.remaining(PUMP_SLICE_S)
                self._pump(left)
                if left <= 0:
                    break
        finally:
            self._serving.release()
            if self._sleepers:
                self._wake_next()

    def serve(self) -> None:
        """Serve the available reports, unless another thread is serving."""
        if self._serving.acquire(blocking=False):
            try:
                self._pump(0)
            finally:
                self._serving.release()
                self._wake_next()

    def _wake_next(self) -> None:
        for sleeper in tuple(self._sleepers)[:1]:
            sleeper.ring()

    def _sleep(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        target = wanted.awaited
        if target is None:
            return
        bell = target.waiter = target.waiter or Bell()
        self._sleepers.add(bell)
        try:  # the thread that was serving may have missed this bell
            if self._serving.locked() and target.awaited is not None:
                bell.wait(deadline.remaining(PUMP_SLICE_S))
        finally:
            self._sleepers.discard(bell)
            if target.awaited is None:  # others may wait for the same
                bell.ring()
