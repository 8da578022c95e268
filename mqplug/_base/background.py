"""The keeper: one thread a client, for callers that are away.

It polls for consumers whose caller is busy, stores acks every second, and serves reports that nobody waits for.
"""

from __future__ import annotations

import logging
from threading import Event, Lock, Thread
from typing import Protocol
from weakref import WeakSet

from mqplug._model.errors import Error

logger = logging.getLogger("mqplug")

ROUND = 0.2  # seconds between rounds


class Kept(Protocol):
    """What the keeper looks after."""

    def _keep(self) -> None: ...


class BackgroundThread:
    """Runs from the first thing it keeps until ``stop``. A failed round is logged; the caller's next call raises."""

    def __init__(self) -> None:
        self._attended: WeakSet[Kept] = WeakSet()
        self._lock = Lock()
        self._done = Event()
        self._thread: Thread | None = None

    def add(self, kept: Kept) -> None:
        """Look after this from now on."""
        with self._lock:
            self._attended.add(kept)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="mqplug-background", daemon=True)
                self._thread.start()

    def remove(self, kept: Kept) -> None:
        """Look after this no more."""
        with self._lock:
            self._attended.discard(kept)

    def stop(self) -> None:
        """End the thread; a round under way is not waited for longer than a second."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._done.wait(ROUND):
            with self._lock:
                kept = list(self._attended)
            for each in kept:
                try:
                    each._keep()
                except Error as error:
                    logger.warning("in the background: %s", error)
                except Exception:  # a driver's mistake with one of them is not the end of the others
                    logger.exception("in the background")
            del kept
