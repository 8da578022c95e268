"""Log lines about an outage: when the server stops answering, every half minute, and when it answers again."""

from __future__ import annotations

import logging
import math
import time

from mqplug._model.errors import ConnectError, Timeout

logger = logging.getLogger("mqplug.outage")

REPEAT_LINE_S = 30.0  # between two log lines about one outage


class Outage:
    """The outages of one consumer's server. They are logged here, so that drivers need not."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._logged_at = -math.inf
        self._logged = False  # whether the beginning was logged, and the end not yet
        self.ongoing = False  # whether the server was away at the last call

    def note(self, error: Exception | None) -> bool:
        """Note an error of a driver's call. Return whether it is logged here, and needs no other log line."""
        if not isinstance(error, ConnectError | Timeout):
            return False
        self.ongoing = True
        now = time.monotonic()
        if now - self._logged_at >= REPEAT_LINE_S:
            self._logged_at = now
            self._logged = True
            # Without the fix, which is for a caller that passed a timeout.
            logger.warning("%s: the server does not answer, retrying: %s", self._what, error.message)
        return True

    def end(self) -> None:
        """Note the success of a call that needed the server."""
        self.ongoing = False
        if self._logged:
            self._logged = False
            logger.warning("%s: the server answers again", self._what)
