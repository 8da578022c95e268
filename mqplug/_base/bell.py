"""A bell that one thread waits for, and any thread may ring."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock


class Bell:
    """Ringing ends the wait that is under way, or else the next one.

    A lock does it: an event takes ten times as long to set, and makes a lock of its own for each wait.
    """

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet = Lock()
        self._quiet.acquire()

    def ring(self) -> None:
        """End the wait; it is enough that one does."""
        if self._quiet.locked():
            with suppress(RuntimeError):  # another thread rang just now
                self._quiet.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait for so many seconds at most, without end if None; say whether it rang."""
        return self._quiet.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
