"""Waiting at the end of logs: the store itself tells when there is more."""

from __future__ import annotations

from collections.abc import Mapping

from mqplug.spi import Bell
from mqplug_rocksmq._store.store import Store


class LogWaiter:
    """Tells when one of the followed logs may have more to read.

    What happens between a look at the logs and the wait ends the wait at once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bell = Bell()
        self.wake = self._bell.ring

    def follow(self, number: int) -> None:
        """Begin to follow a log."""
        self._store.watch(number, self.wake)

    def leave(self, number: int) -> None:
        """Follow a log no more."""
        self._store.unwatch(number, self.wake)

    def wait(self, offsets: Mapping[int, int], timeout: float) -> None:
        """Return when there may be more behind these offsets, after ``wake``, or when the time is up."""
        self._bell.wait(timeout)
