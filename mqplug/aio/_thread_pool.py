"""Daemon threads that make blocking calls for the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """A call for a thread, and the future of its result.

    ``undo`` gets the result if no caller can have it: the caller was cancelled, or the loop is closed.
    """

    __slots__ = ("_context", "_pool", "_undo", "_work", "future")

    def __init__(self, pool: ThreadPool, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> None:
        self._pool = pool
        self._work = work
        self._undo = undo
        self._context = copy_context()
        self.future: asyncio.Future[T] = pool.event_loop.create_future()
        pool.busy += 1

    def do(self) -> None:
        """Make the call on this thread, and report its result to the loop."""
        try:
            result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
            self._pool.call_on_loop(self._raised, error)
            return
        if not self._pool.call_on_loop(self._returned, result) and self._undo is not None:
            self._undo(result)

    def _returned(self, result: T) -> None:
        self._pool.busy -= 1
        if not self.future.done():
            self.future.set_result(result)
        elif self._undo is not None:
            undo = self._undo
            self._pool.start(lambda: undo(result))

    def _raised(self, error: BaseException) -> None:
        self._pool.busy -= 1
        if not self.future.done():
            self.future.set_exception(error)

    @property
    def dropped(self) -> bool:
        """Whether the caller was cancelled."""
        return self.future.cancelled()

    def drop(self) -> None:
        """Count the job as done without doing it."""
        self._pool.busy -= 1


class ThreadPool:
    """Runs as many threads as there are jobs under way. An idle thread takes the next job.

    They are daemons: a hanging native client does not keep the interpreter from ending. Jobs are made and started
    on the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.event_loop = loop
        self.busy = 0  # jobs whose end the loop has not seen yet
        self._name = name
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._threads = 0
        self._shut_down = False

    def start(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> asyncio.Future[T]:
        """Have a thread call ``work``, whether or not its future is awaited."""
        job = Job(self, work, undo)
        if self.busy > self._threads:
            self._threads += 1
            Thread(target=_serve, args=(self._jobs,), name=self._name, daemon=True).start()
        self._jobs.put(job)
        if self._shut_down:
            self.shut_down()
        return job.future

    def call_on_loop(self, function: Callable[..., object], *arguments: object) -> bool:
        """Have the loop call this function, from any thread. Return False if the loop is closed."""
        try:
            self.event_loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            return False
        return True

    def shut_down(self) -> None:
        """End each thread after its job. A later job gets a thread of its own."""
        self._shut_down = True
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def __del__(self) -> None:
        self.shut_down()


def _serve(jobs: SimpleQueue[Job[Any] | None]) -> None:
    """Do jobs until there is a None among them."""
    while (job := jobs.get()) is not None:
        job.do()
        del job  # frees its references before the next job comes
