"""The sends of a producer while RocksDB takes no writes: another thread stores them, so that no sender is held up."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mqplug import Error
from mqplug.spi import Deadline
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._store.store import Store

LOOK_S: Final = 0.01


class StoppedSends:
    """Sends in order. Each raises ``WritesStopped``, and has done nothing then, or settles what it sends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def do(self, send: Callable[[], None]) -> None:
        """Send now, or behind those that wait. Never called by two threads at once."""
        with self._lock:
            if self._waiting:
                self._waiting.append(send)
                return
        try:
            send()
        except WritesStopped:
            self._waiting.append(send)
            threading.Thread(target=self._send_waiting, name="mqplug-rocksmq-sends", daemon=True).start()

    def _send_waiting(self) -> None:
        while True:
            with suppress(Error):  # a store that is closed meanwhile: the send finds out
                self._store.engine.await_writes(Deadline(None))
            with suppress(WritesStopped):
                self._waiting[0]()
                with self._lock:
                    self._waiting.popleft()
                    if not self._waiting:
                        return

    def wait(self, timeout: float) -> bool:
        """Return False if nothing waits. Else return in a moment."""
        if self._waiting:
            time.sleep(min(timeout, LOOK_S))
        return bool(self._waiting)
