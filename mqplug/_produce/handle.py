"""The handle of a record on its way, and how callers wait for its outcome."""

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
    from mqplug._base.bell import Bell
    from mqplug._base.deadline import Deadline
    from mqplug._model.headers import Headers
    from mqplug._model.log import Log
    from mqplug._model.text import Numbers

    IdParts = tuple[Log, Numbers, Numbers]
    """Log, coordinates and detail: what makes an id."""


PUMP_SLICE_S = 0.1  # seconds that a driver is asked to wait at most: Ctrl-C and deadlines wait no longer


class AwaitedSend(Protocol):
    """A record, or a run of records, whose outcome a caller waits for."""

    waiter: Bell | None

    @property
    def awaited(self) -> AwaitedSend | None:
        """The part to wait for now; None once all is settled."""
        ...


Wait = Callable[[AwaitedSend, "Deadline"], None]


class Pump:
    """Lets one waiter at a time serve the driver's reports. The others sleep until it is their turn."""

    def __init__(self, pump: Callable[[float], None]) -> None:
        self._pump = pump
        self._serving = Lock()
        self._sleepers: set[Bell] = set()

    def wait(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        """Wait until this is settled, or the time is up. With no time at all, serve reports once."""
        while wanted.awaited is not None:
            if self._serve(wanted, deadline):
                return
            self._sleep(wanted, deadline)
            if deadline.expired:
                return

    def serve(self) -> None:
        """Serve the reports that are there, unless another thread does."""
        if self._serving.acquire(blocking=False):
            try:
                self._pump(0)
            finally:
                self._hand_on()

    def _serve(self, wanted: AwaitedSend, deadline: Deadline) -> bool:
        """Serve until this is settled, or the time is up. Return False if another thread serves."""
        if not self._serving.acquire(blocking=False):
            return False
        try:
            while wanted.awaited is not None:
                self._pump(deadline.remaining(PUMP_SLICE_S))
                if deadline.expired:
                    break
        finally:
            self._hand_on()
        return True

    def _hand_on(self) -> None:
        self._serving.release()
        for sleeper in tuple(self._sleepers)[:1]:
            sleeper.ring()

    def _sleep(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        target = wanted.awaited
        if target is None:
            return
        bell = target.waiter = target.waiter or Bell()
        self._sleepers.add(bell)
        try:  # the thread that served until now may have missed this bell
            if self._serving.locked() and target.awaited is not None:
                bell.wait(deadline.remaining(PUMP_SLICE_S))
        finally:
            self._sleepers.discard(bell)
            if target.awaited is None:  # others may wait for the same
                bell.ring()


class SendHandle:
    """The handle of a submitted record. It owns no lock: a waiter adds a bell when it waits."""

    __slots__ = (
        "headers", "key", "looked_at", "outcome", "partition", "size", "timestamp", "topic", "value", "wait", "waiter",
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
        self.looked_at = False
        self.waiter: Bell | None = None
        self.outcome: IdParts | Error | None = None

    def result(self, timeout: float | None = 30) -> MessageId:
        """Wait for the id that the consumer will see.

        Raises the error that proves that the record was not stored, ``OutcomeUnknown`` where nothing is proven, and
        ``SendTimeout`` (which is both ``OutcomeUnknown`` and ``Timeout``) when the time is up: the send goes on.
        """
        if timeout != 30:
            check_timeout(timeout)
        if self.outcome is None:
            self.wait(self, Deadline(timeout))
        outcome = self.outcome
        if outcome is None:
            raise self.timed_out()
        if isinstance(outcome, Error):
            self.looked_at = True
            raise outcome.with_traceback(None)
        return MessageId(*outcome)

    @property
    def done(self) -> bool:
        """Whether the record is settled, even if its outcome is unknown."""
        return self.outcome is not None

    @property
    def awaited(self) -> SendHandle | None:
        """The handle itself until it is settled, then None."""
        return self if self.outcome is None else None

    @property
    def error(self) -> Error | None:
        """The error that kept the record from being stored, or left it in doubt; None if there is none so far."""
        return self.outcome if isinstance(self.outcome, Error) else None

    def timed_out(self) -> SendTimeout:
        """Return the error for a wait that ran out of time."""
        error = SendTimeout(
            "no answer in time: the message may or may not be stored", topic=self.topic, operation="send",
            fix="Ask error.handle for the late result before sending it again",
        )  # fmt: skip
        error.handle = self
        return error

    # for drivers; each handle is settled once, what comes later changes nothing

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """Settle the record as stored, with this id."""
        if self.outcome is None:
            self.outcome = (log, coordinates, detail)
            if self.waiter is not None:
                self.waiter.ring()

    def failed(self, error: Error) -> None:
        """Settle the record as proven not to be stored."""
        if self.outcome is None:
            self.outcome = error.at(topic=self.topic, operation="send")
            if self.waiter is not None:
                self.waiter.ring()

    def unknown(self, error: Error) -> None:
        """Settle the record as in doubt: it may or may not be stored."""
        self.failed(in_doubt(error))

    def __repr__(self) -> str:
        if self.outcome is None:
            return f"<SendHandle {self.topic}: on its way>"
        state = type(self.outcome).__name__ if isinstance(self.outcome, Error) else "stored"
        return f"<SendHandle {self.topic}: {state}>"
