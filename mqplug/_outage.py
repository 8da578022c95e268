"""Telling the log of an outage: when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

import logging
import time

from mqplug._errors import ConnectError, Timeout

AGAIN_S = 30.0  # seconds between two lines about one outage

logger = logging.getLogger("mqplug.outage")


class Outage:
    """What was said of the server that one consumer uses. Drivers need not log that a server is away."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the server was away when it was asked last."""
        return self._said is not None

    def note(self, error: Exception | None) -> bool:
        """Take in what a driver's call raised; whether that is told here, and needs no other line."""
        if not isinstance(error, ConnectError | Timeout):
            return False
        now = time.monotonic()
        if self._said is None or now - self._said >= AGAIN_S:
            self._said = now
            logger.warning("%s: the server does not answer, it is tried again: %s", self._what, error)
        return True

    def end(self) -> None:
        """A call succeeded that needed the server."""
        if self._said is not None:
            self._said = None
            logger.warning("%s: the server answers again", self._what)
