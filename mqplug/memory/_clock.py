"""A store's clock: real time, which tests can advance."""

from __future__ import annotations

import threading
import time
from threading import Condition


class Clock:
    """The clock of a store. ``advance`` moves it forward and wakes the waits that are due.

    ``skips`` is for tests: a wait that no other thread can end returns at once, and the clock advances by its length.
    The methods are named as in the module ``time``, so a clock can replace that module.
    """

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._ahead = 0.0
        self.skips = False

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time() + self._ahead

    def monotonic(self) -> float:
        """Return the seconds since an unspecified moment. Never goes back."""
        return time.monotonic() + self._ahead

    def time_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return time.time_ns() + int(self._ahead * 1e9)

    def advance(self, seconds: float) -> None:
        """Move the clock forward: retention removes messages that are too old, and delays end."""
        if not seconds >= 0:
            raise ValueError(f"advance() takes at least 0 seconds, not {seconds}: the clock never goes back")
        with self._changed:
            self._ahead += seconds
            self._changed.notify_all()

    def wait(self, seconds: float, *, alone: bool) -> None:
        """Wait up to ``seconds`` for a change of the store. Needs the store's lock."""
        if self.skips and alone and _no_other_thread():
            self.advance(seconds)
        else:
            self._changed.wait(seconds)


BACKGROUND_THREAD = "mqplug-background"  # the thread that tends a client's consumers; it sends nothing


def _no_other_thread() -> bool:
    me = threading.current_thread()
    return all(each is me or each.name == BACKGROUND_THREAD for each in threading.enumerate())
