"""Deadlines: each call has one for all its steps."""

from __future__ import annotations

import math
import time

from mqplug._model.checks import number

FOREVER_S = 1e9  # a longer timeout waits forever, because locks and events refuse larger numbers
_NUMBERS = frozenset({int, float})  # the types of nearly all timeouts, for a fast check


class Deadline:
    """The time by which a call must end. A timeout of None waits forever; 0 polls."""

    __slots__ = ("_end", "timeout")

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None:
            if type(timeout) not in _NUMBERS or not timeout >= 0:  # saves the call for nearly all timeouts
                check_timeout(timeout)
            if timeout > FOREVER_S:
                timeout = None
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def remaining(self, most: float = math.inf) -> float:
        """Return the seconds left, at least 0 and at most ``most``."""
        if self._end is None:
            return most
        left = self._end - time.monotonic()
        return most if left > most else max(0.0, left)

    def timeout_left(self) -> float | None:
        """Return the seconds left as a timeout, for a call that takes one; None waits forever."""
        return None if self.timeout is None else self.remaining()

    @property
    def expired(self) -> bool:
        """Whether the time has passed."""
        return self._end is not None and time.monotonic() >= self._end


def check_timeout(timeout: float | None) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless this is a timeout."""
    if timeout is None or (type(timeout) in _NUMBERS and timeout >= 0):
        return
    seconds = number("a timeout", timeout, "a number of seconds or None")
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"a timeout must be at least 0 (which polls), or None (which waits forever), not {timeout}")
