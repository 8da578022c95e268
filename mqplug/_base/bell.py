"""A bell for which one thread waits, and which any thread may ring."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock


class Bell:
    """A bell: a ring ends the wait that is under way, or else the next one.

    A lock implements it: an event takes ten times as long to set, and makes a lock of its own for each wait.
    """

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet = Lock()
        self._quiet.acquire()

    def ring(self) -> None:
        """End the wait. Rings before the wait count as one."""
        if self._quiet.locked():
            with suppress(RuntimeError):  # another thread rang just now
                self._quiet.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait up to ``timeout`` seconds (None: for ever). Return whether it rang."""
        return self._quiet.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
