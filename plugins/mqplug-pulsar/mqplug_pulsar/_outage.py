"""Saying that the broker cannot be reached: at once, then now and then, and when it is back."""

from __future__ import annotations

import logging
import time

EVERY = 30.0  # seconds between two lines about one outage

logger = logging.getLogger("mqplug.pulsar")


class Outage:
    """What one consumer has said of it."""

    def __init__(self) -> None:
        self._said: float | None = None

    def goes_on(self, why: Exception) -> None:
        """The broker is away."""
        now = time.monotonic()
        if self._said is None or now - self._said >= EVERY:
            self._said = now
            logger.warning("the broker cannot be reached, the client tries again: %s", why)

    def ends(self) -> None:
        """The broker is there."""
        if self._said is not None:
            self._said = None
            logger.warning("the broker can be reached again")
