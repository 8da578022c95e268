"""Waiting at the end of logs: in the owner's process by being told, elsewhere by asking the owner."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, Protocol

from mqplug_rocksmq._remote import RemoteStore
from mqplug_rocksmq._store import Store

_SLICE: Final = 0.1


class Tail(Protocol):
    """Tells when one of the followed logs may have more to read."""

    def follow(self, number: int) -> None:
        """Begin to follow a log."""

    def leave(self, number: int) -> None:
        """Follow a log no more."""

    def wait(self, offsets: Mapping[int, int], timeout: float) -> None:
        """Return when there may be more behind these offsets, after ``wake``, or when the time is up."""

    def wake(self) -> None:
        """End a wait, from any thread."""


class LocalTail:
    """Is told by the store itself. What happens between a look at the logs and the wait ends the wait at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._more = threading.Event()
        self.wake = self._more.set

    def follow(self, number: int) -> None:
        self._store.watch(number, self.wake)

    def leave(self, number: int) -> None:
        self._store.unwatch(number, self.wake)

    def wait(self, offsets: Mapping[int, int], timeout: float) -> None:
        self._more.wait(timeout)
        self._more.clear()


class RemoteTail:
    """Asks the owner, who answers when there is more. Only the end of a slice of time ends that early."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def follow(self, number: int) -> None:
        """Nothing to do: each question names the logs."""

    def leave(self, number: int) -> None:
        """Nothing to do: each question names the logs."""

    def wait(self, offsets: Mapping[int, int], timeout: float) -> None:
        self._store.wait(offsets, min(timeout, _SLICE))

    def wake(self) -> None:
        """Nothing to do: a slice is short."""


def tail_of(store: Store | RemoteStore) -> Tail:
    """Return what waits for this store."""
    return LocalTail(store) if isinstance(store, Store) else RemoteTail(store)
