"""Threads that wait so that the loop need not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """Something for a thread to do, and the future that gets what comes of it.

    ``undo`` gets the result if nobody can have it: whoever awaited it was cancelled, or the loop is closed.
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
        """Do it, on this thread, and tell the loop."""
        try:
            result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited
            self._pool.tell(self._raised, error)
            return
        if not self._pool.tell(self._returned, result) and self._undo is not None:
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
        """Whether nobody wants it any more."""
        return self.future.cancelled()

    def drop(self) -> None:
        """It will not be done."""
        self._pool.busy -= 1


class ThreadPool:
    """As many threads as there are jobs under way; one that has nothing to do takes the next.

    They are daemons: what hangs in a native client does not keep the interpreter from ending. Jobs are made and started
    on the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.event_loop = loop
        self.busy = 0  # jobs whose end the loop has not seen yet
        self._name = name
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._threads = 0
        self._dismissed = False

    def start(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> asyncio.Future[T]:
        """Have a thread do this, whether or not anybody awaits the future."""
        job = Job(self, work, undo)
        if self.busy > self._threads:
            self._threads += 1
            Thread(target=_serve, args=(self._jobs,), name=self._name, daemon=True).start()
        self._jobs.put(job)
        if self._dismissed:
            self.dismiss()
        return job.future

    def tell(self, heard: Callable[..., object], *news: object) -> bool:
        """Have the loop call this, from any thread; False if the loop is closed."""
        try:
            self.event_loop.call_soon_threadsafe(heard, *news)
        except RuntimeError:
            return False
        return True

    def dismiss(self) -> None:
        """Let each thread go after its job. What is started later gets a thread for itself alone."""
        self._dismissed = True
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def __del__(self) -> None:
        self.dismiss()


def _serve(jobs: SimpleQueue[Job[Any] | None]) -> None:
    """Do jobs until there is a None among them."""
    while (job := jobs.get()) is not None:
        job.do()
        del job  # what it holds is not kept until the next one comes
