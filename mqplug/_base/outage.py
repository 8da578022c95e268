"""Telling the log of an outage: when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

import logging
import math
import time

from mqplug._model.errors import ConnectError, Timeout

REPEAT_LINE_S = 30.0  # seconds between two lines about one outage

logger = logging.getLogger("mqplug.outage")


class Outage:
    """What was said of the server that one consumer uses. Drivers need not log that a server is away."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said_at = -math.inf
        self._told = False  # that it goes on, and not yet that it is over
        self.goes_on = False  # the server was away when it was asked last

    def note(self, error: Exception | None) -> bool:
        """Take in what a driver's call raised; whether that is told here, and needs no other line."""
        if not isinstance(error, ConnectError | Timeout):
            return False
        self.goes_on = True
        now = time.monotonic()
        if now - self._said_at >= REPEAT_LINE_S:
            self._said_at = now
            self._told = True
            logger.warning("%s: the server does not answer, it is tried again: %s", self._what, error)
        return True

    def end(self) -> None:
        """A call succeeded that needed the server."""
        self.goes_on = False
        if self._told:
            self._told = False
            logger.warning("%s: the server answers again", self._what)
