"""Log lines about an outage: when it begins, while it lasts, and when it ends."""

from __future__ import annotations

import logging
import math
import time

from mqplug._model.errors import ConnectError, Timeout

REPEAT_LINE_S = 30.0  # between two lines about one outage

logger = logging.getLogger("mqplug.outage")


class Outage:
    """The outages of the server that one consumer uses, as they are logged. Drivers need not log that a
    server is away.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._said_at = -math.inf
        self._told = False  # whether its begin was logged, and not yet its end
        self.goes_on = False  # whether the server was away at the last call

    def note(self, error: Exception | None) -> bool:
        """Note an error of a driver's call. Return whether it is logged here, and needs no other line."""
        if not isinstance(error, ConnectError | Timeout):
            return False
        self.goes_on = True
        now = time.monotonic()
        if now - self._said_at >= REPEAT_LINE_S:
            self._said_at = now
            self._told = True
            # Without the fix: it is for a caller, and here nobody passed a time-out.
            logger.warning("%s: the server does not answer, retrying: %s", self._what, error.message)
        return True

    def end(self) -> None:
        """Note that a call succeeded which needed the server."""
        self.goes_on = False
        if self._told:
            self._told = False
            logger.warning("%s: the server answers again", self._what)
