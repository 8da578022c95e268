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


class OnItsWay(Protocol):
    """A record, or a run of them, of which somebody wants to know what became of it."""

    waiter: Bell | None

    @property
    def awaited(self) -> OnItsWay | None:
        """What is to be waited for now; None when it is settled."""
        ...


Wait = Callable[[OnItsWay, "Deadline"], None]


class Pump:
    """One waiter at a time serves the reports; the others sleep until theirs is there, or it is their turn."""

    def __init__(self, pump: Callable[[float], None]) -> None:
        self._pump = pump
        self._serving = Lock()
        self._sleepers: set[Bell] = set()

    def wait(self, wanted: OnItsWay, deadline: Deadline) -> None:
        """Wait until this is settled, or the time is up; with no time at all, have a look."""
        while wanted.awaited is not None:
            if self._serve(wanted, deadline):
                return
            self._sleep(wanted, deadline)
            if deadline.expired:
                return

    def serve(self) -> None:
        """Serve what reports there are, unless somebody does already."""
        if self._serving.acquire(blocking=False):
            try:
                self._pump(0)
            finally:
                self._hand_on()

    def _serve(self, wanted: OnItsWay, deadline: Deadline) -> bool:
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

    def _sleep(self, wanted: OnItsWay, deadline: Deadline) -> None:
        target = wanted.awaited
        if target is None:
            return
        bell = target.waiter = target.waiter or Bell()
        self._sleepers.add(bell)
        try:  # whoever served until a moment ago may not have seen us
            if self._serving.locked() and target.awaited is not None:
                bell.wait(deadline.remaining(PUMP_SLICE_S))
        finally:
            self._sleepers.discard(bell)
            if target.awaited is None:  # others may wait for the same
                bell.ring()


class SendHandle:
    """What ``submit`` returns. It owns no lock: a waiter makes an event when it waits."""

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
        """Whether the outcome is there, if only that it is unknown."""
        return self.outcome is not None

    @property
    def awaited(self) -> SendHandle | None:
        """Itself as long as it is on its way."""
        return self if self.outcome is None else None

    @property
    def error(self) -> Error | None:
        """Why it was not stored, or may not have been; None as long as that is not known."""
        return self.outcome if isinstance(self.outcome, Error) else None

    def timed_out(self) -> SendTimeout:
        """What is raised when the time is up."""
        error = SendTimeout(
            "no answer in time: the message may or may not be stored", topic=self.topic, operation="send",
            fix="Ask error.handle for the late result before sending it again",
        )  # fmt: skip
        error.handle = self
        return error

    # for drivers; each handle is settled once, what comes later changes nothing

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """It is stored, under this id."""
        if self.outcome is None:
            self.outcome = (log, coordinates, detail)
            if self.waiter is not None:
                self.waiter.ring()

    def failed(self, error: Error) -> None:
        """It is proven not to be stored."""
        if self.outcome is None:
            self.outcome = error.at(topic=self.topic, operation="send")
            if self.waiter is not None:
                self.waiter.ring()

    def unknown(self, error: Error) -> None:
        """It may or may not be stored."""
        self.failed(in_doubt(error))

    def __repr__(self) -> str:
        if self.outcome is None:
            return f"<SendHandle {self.topic}: on its way>"
        state = type(self.outcome).__name__ if isinstance(self.outcome, Error) else "stored"
        return f"<SendHandle {self.topic}: {state}>"
