"""Keeps to a number of messages a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_BURST_S: Final = 0.1  # messages of this time may go together; what was missed before is not made up


class Pacer:
    """Says how many messages may go now, so that ``rate`` of them go in a second."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._next = clock()  # when the next message is due

    def take(self, most: int) -> int:
        """Return how many of these messages may go now, and count them as gone."""
        now = self._clock()
        if now < self._next:
            return 0
        self._next = max(self._next, now - _BURST_S)
        count = min(most, 1 + int((now - self._next) * self._rate))
        self._next += count / self._rate
        return count

    @property
    def wait(self) -> float:
        """Return the seconds until a message may go."""
        return max(0.0, self._next - self._clock())
