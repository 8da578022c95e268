"""The handle of a record, and the record that is sent by itself, which is its own handle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqplug._base.deadline import Deadline, check_timeout
from mqplug._model.errors import Error
from mqplug._model.ids import MessageId
from mqplug._model.outcome import SendTimeout, in_doubt

if TYPE_CHECKING:
    from mqplug._base.bell import Bell
    from mqplug._model.id_text import Numbers
    from mqplug._model.log import Log
    from mqplug._model.message import Headers
    from mqplug._produce.pump import AwaitedSend, Wait

    IdParts = tuple[Log, Numbers, Numbers]
    """Log, coordinates and detail: the parts of an id."""


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
