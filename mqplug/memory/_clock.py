"""The time in a store: real time, plus what a test adds."""

from __future__ import annotations

import threading
import time
from threading import Condition


class Clock:
    """The time in a store. ``advance`` adds to it, which ends waits for a moment that has come.

    ``skips`` is for tests: a wait that nothing can end, because there is no other thread that could send, passes at
    once, and the clock advances by as much. The functions are named as in the module ``time``, which it can replace.
    """

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._ahead = 0.0
        self.skips = False

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time() + self._ahead

    def monotonic(self) -> float:
        """Return the seconds since some moment; they never decrease."""
        return time.monotonic() + self._ahead

    def time_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return time.time_ns() + int(self._ahead * 1e9)

    def advance(self, seconds: float) -> None:
        """Advance the time at once: retention removes what is too old, delays run out."""
        if not seconds >= 0:
            raise ValueError(f"advance() takes at least 0 seconds, not {seconds}")
        with self._changed:
            self._ahead += seconds
            self._changed.notify_all()

    def wait(self, seconds: float, *, alone: bool) -> None:
        """Wait up to ``seconds`` for a change of the store. The store's lock is held."""
        if self.skips and alone and _no_other_thread():
            self.advance(seconds)
        else:
            self._changed.wait(seconds)


BACKGROUND_THREAD = "mqplug-background"  # the thread that looks after a client's consumers, and sends nothing


def _no_other_thread() -> bool:
    me = threading.current_thread()
    return all(each is me or each.name == BACKGROUND_THREAD for each in threading.enumerate())
