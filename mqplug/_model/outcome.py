"""Errors of sends with an unknown outcome, and their late results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mqplug._model.errors import Error, Timeout, rebuild_error

if TYPE_CHECKING:
    from mqplug._model.ids import MessageId


class UnfinishedSend(Protocol):
    """A send that is still on its way, as an error refers to it."""

    def result(self, timeout: float | None = 30) -> MessageId:
        """Wait for the id of the stored message. Raise the error if it was not stored."""
        ...

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        ...

    @property
    def error(self) -> Error | None:
        """The error that kept the message from being stored or left it in doubt; None while there is none."""
        ...


class OutcomeUnknown(Error):
    """The message may or may not be stored. Sending it again may store it twice."""

    fix = "Check whether it is stored before sending it again"
    retryable = True
    handle: UnfinishedSend | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "handle"}
        return rebuild_error, (type(self), self.args, state)


class SendTimeout(OutcomeUnknown, Timeout):
    """A send's timeout ran out. The send itself continues, and ``handle`` gets its result."""


def in_doubt(error: Error) -> OutcomeUnknown:
    """Return an error that leaves the outcome open as ``OutcomeUnknown``."""
    if isinstance(error, OutcomeUnknown):
        return error
    doubt = OutcomeUnknown(f"it may or may not be stored: {error.message}")
    doubt.__cause__ = error
    return doubt
