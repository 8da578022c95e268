"""The background thread of a client, which works for its producers and consumers between their callers' calls."""

from __future__ import annotations

import logging
from threading import Event, Lock, Thread
from typing import Protocol
from weakref import WeakSet

from mqplug._model.errors import Error

logger = logging.getLogger("mqplug")

ROUND_INTERVAL_S = 0.2
STOP_WAIT_S = 1.0  # for a running round


class BackgroundWorker(Protocol):
    """An object with work to do between its caller's calls."""

    def work_in_background(self) -> None:
        """Do what is due now."""
        ...


class BackgroundThread:
    """A thread that runs from the first ``add`` until ``stop``. A failed round is logged; the next call raises."""

    def __init__(self) -> None:
        self._workers: WeakSet[BackgroundWorker] = WeakSet()
        self._lock = Lock()
        self._done = Event()
        self._thread: Thread | None = None

    def add(self, worker: BackgroundWorker) -> None:
        """Call this worker in every later round."""
        with self._lock:
            self._workers.add(worker)
            if self._thread is None:
                thread = Thread(target=self._run, name="mqplug-background", daemon=True)
                thread.start()
                self._thread = thread  # only now: Ctrl-C may have ended its start

    def remove(self, worker: BackgroundWorker) -> None:
        """Stop calling this worker."""
        with self._lock:
            self._workers.discard(worker)

    def stop(self) -> None:
        """End the thread. A running round gets a second to finish."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        while not self._done.wait(ROUND_INTERVAL_S):
            self._work()

    def _work(self) -> None:
        """Run one round. Between rounds the thread keeps no worker alive."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            try:
                worker.work_in_background()
            except Error as error:
                logger.warning("background work of %r failed: %s", worker, error)
            except Exception:  # a driver's defect in one must not stop the others
                logger.exception("background work of %r failed", worker)
