"""A bell that any thread may ring, and that wakes one waiting thread."""

from __future__ import annotations

from threading import Lock


class Bell:
    """A bell: a ring ends the current wait, or the next one if there is none.

    It is implemented by a lock, because an event takes ten times as long to set and creates a lock for each wait.
    """

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet = Lock()
        self._quiet.acquire()

    def ring(self) -> None:
        """End the wait. Several rings before a wait count as one."""
        if self._quiet.locked():
            try:  # noqa: SIM105 - each message rings, and ``suppress`` takes ten times as long
                self._quiet.release()
            except RuntimeError:  # another thread rang at the same time
                pass

    def wait(self, timeout: float | None) -> bool:
        """Wait up to ``timeout`` seconds (None: forever). Return whether it rang."""
        return self._quiet.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
