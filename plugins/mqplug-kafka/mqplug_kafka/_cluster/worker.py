"""A thread for client calls that can be neither bounded nor interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs client calls on its own thread, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, job: Callable[[], T]) -> Future[T]:
        """Queue a job and return its future."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    def stop(self) -> None:
        """End the thread after the queued jobs, without waiting for it."""
        if self._thread is not None:
            self._jobs.put(None)

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            job, future = task
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001  # raised where the future is awaited
                future.set_exception(error)
