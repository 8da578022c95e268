"""What a lane hands to the native client together, and how its records are settled by the results."""

from __future__ import annotations

from typing import Any, Protocol

from _pulsar import Result

import mqplug
from mqplug import Log
from mqplug.spi import Sending

DUPLICATE = "the broker dropped the message as a duplicate: it had stored it before, under an id that it does not tell"


class Lane(Protocol):
    """The partition to which something is sent."""

    log: Log

    def reported(self, sent: Sent) -> None:
        """Take the last report on what was sent, and ring. Others may come later. This must not raise."""

    def take(self, sent: Sent) -> None:
        """Do as ``reported`` does, without ringing."""

    def error_of(self, result: Any) -> tuple[bool, mqplug.Error]:
        """Return whether this result proves that a message was not stored, and its error."""
        ...


class Sent(Protocol):
    """What a lane sends together."""

    @property
    def is_complete(self) -> bool:
        """Whether all reports are in."""
        ...

    def hand_over(self, native: Any) -> None:
        """Hand it to this native producer."""

    def settle(self) -> None:
        """Settle its records by the reports. Those without one ended with their native producer."""

    def failed(self, error: mqplug.Error) -> None:
        """Settle its records as not sent."""

    def unknown(self, error: mqplug.Error) -> None:
        """Settle its records as possibly stored."""


def settle_failed(sending: Sending, result: Result, lane: Lane) -> None:
    """Settle one record by a result that is not Ok."""
    proven, error = lane.error_of(result)
    (sending.failed if proven else sending.unknown)(error)


def settle_duplicate(sending: Sending) -> None:
    """Settle one record that has no id, although its result is Ok."""
    sending.unknown(mqplug.OutcomeUnknown(DUPLICATE))
