"""The handle of a record on its way: accepted, then stored under an id, failed, or unknown."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from mqplug._deadline import Deadline, check_timeout
from mqplug._errors import Error, SendTimeout
from mqplug._ids import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqplug._log import Log
    from mqplug._record import CheckedRecord
    from mqplug._text import Numbers

    Wait = Callable[["SendHandle", Deadline], None]


class SendHandle:
    """What ``submit`` returns. It owns no lock: a waiter makes an event when it waits."""

    __slots__ = ("_outcome", "_wait", "looked_at", "partition", "record", "size", "topic", "waiter")

    def __init__(self, topic: str, record: CheckedRecord, partition: int, size: int, wait: Wait) -> None:
        self.topic = topic
        self.record = record
        self.partition = partition
        self.size = size
        self.looked_at = False
        self.waiter: Event | None = None
        self._outcome: tuple[Log, Numbers, Numbers] | Error | None = None
        self._wait = wait

    def result(self, timeout: float | None = 30) -> MessageId:
        """Wait for the id that the consumer will see.

        Raises the error that proves that the record was not stored, ``OutcomeUnknown`` where nothing is proven, and
        ``SendTimeout`` (which is both ``OutcomeUnknown`` and ``Timeout``) when the time is up: the send goes on.
        """
        check_timeout(timeout)
        if self._outcome is None:
            self._wait(self, Deadline(timeout))
        outcome = self._outcome
        if outcome is None:
            raise self._timed_out(timeout)
        self.looked_at = True
        if isinstance(outcome, Error):
            raise outcome.with_traceback(None)
        return MessageId(*outcome)

    @property
    def done(self) -> bool:
        """Whether the outcome is there, if only that it is unknown."""
        return self._outcome is not None

    @property
    def pending(self) -> bool:
        """Whether it is still on its way."""
        return self._outcome is None

    @property
    def error(self) -> Error | None:
        """Why it was not stored, or may not have been; None as long as that is not known."""
        return self._outcome if isinstance(self._outcome, Error) else None

    def _timed_out(self, timeout: float | None) -> SendTimeout:
        error = SendTimeout(
            f"no answer within {timeout:g} s: the message may or may not be stored",
            topic=self.topic, operation="send", fix="Ask error.handle for the late result before sending it again",
        )  # fmt: skip
        error.handle = self
        return error

    # for drivers; each handle is settled once, what comes later changes nothing

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """It is stored, under this id."""
        self._settle((log, coordinates, detail))

    def failed(self, error: Error) -> None:
        """It is proven not to be stored."""
        self._settle(error.at(topic=self.topic, operation="send"))

    def unknown(self, error: Error) -> None:
        """It may or may not be stored."""
        self._settle(error.at(topic=self.topic, operation="send"))

    def _settle(self, outcome: tuple[Log, Numbers, Numbers] | Error) -> None:
        if self._outcome is None:
            self._outcome = outcome
            waiter = self.waiter
            if waiter is not None:
                waiter.set()

    def __repr__(self) -> str:
        if self._outcome is None:
            return f"<SendHandle {self.topic}: on its way>"
        state = type(self._outcome).__name__ if isinstance(self._outcome, Error) else "stored"
        return f"<SendHandle {self.topic}: {state}>"
