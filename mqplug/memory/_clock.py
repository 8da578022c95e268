"""The time in a store: real time, and as much more as a test says."""

from __future__ import annotations

import threading
import time
from threading import Condition


class Clock:
    """What time it is in a store. ``advance`` makes it later; whoever waits for a moment that has come then goes on.

    ``skips`` is for tests: a wait that nothing can end, because there is no other thread that could send, passes at
    once, and the clock goes on by as much. The functions are named as in the module ``time``, whose place it can take.
    """

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._ahead = 0.0
        self.skips = False

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._ahead

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic() + self._ahead

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns() + int(self._ahead * 1e9)

    def advance(self, seconds: float) -> None:
        """Let so much time pass at once: retention removes what is too old, delays run out."""
        if not seconds >= 0:
            raise ValueError(f"time only goes on: advance() takes at least 0 seconds, not {seconds}")
        with self._changed:
            self._ahead += seconds
            self._changed.notify_all()

    def wait(self, seconds: float, *, alone: bool) -> None:
        """Wait for a change of the store, for so long at most. The store's lock is held."""
        if self.skips and alone and _no_other_thread():
            self.advance(seconds)
        else:
            self._changed.wait(seconds)


BACKGROUND_THREAD = "mqplug-background"  # the thread that looks after a client's consumers, and sends nothing


def _no_other_thread() -> bool:
    me = threading.current_thread()
    return all(each is me or each.name == BACKGROUND_THREAD for each in threading.enumerate())
