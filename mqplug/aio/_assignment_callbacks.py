"""The user's callbacks for assignments: a driver's thread calls them, and the loop runs them.

That thread holds the driver while it waits for them. It also makes the consumer's calls that they await, because no
other thread could; so a callback may seek.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from mqplug._model.log import Log
from mqplug.aio._loop import ClientLoop, Job

T = TypeVar("T")

AsyncOnChange = Callable[[Sequence[Log]], Awaitable[None] | None]

LOOP_CHECK_S = 1.0  # how often a waiting thread checks whether the loop still runs

_running: ContextVar[RunningCallback | None] = ContextVar("mqplug-callback", default=None)


class Callbacks:
    """The callbacks of one consumer."""

    def __init__(self, loop: ClientLoop) -> None:
        self._loop = loop

    def on_loop(self, function: AsyncOnChange | None) -> Callable[[Sequence[Log]], None] | None:
        """Return a callback for the driver, which waits while the loop calls the function, plain or ``async``."""
        if function is None:
            return None

        def on_thread(logs: Sequence[Log]) -> None:
            running = RunningCallback(self, self._loop, lambda: function(logs))
            if self._loop.pool.call_on_loop(running.begin):
                running.wait()

        return on_thread

    @property
    def inside(self) -> bool:
        """Whether the current call comes from a callback of this consumer."""
        running = _running.get()
        return running is not None and running.owner is self and not running.done

    async def call(self, work: Callable[[], T]) -> T:
        """Call ``work`` on a thread: inside a callback, on the thread that waits for it."""
        running = _running.get()
        if running is None or not self.inside:
            return await self._loop.call(work)
        job = Job(self._loop.pool, work)
        running.jobs.put(job)
        return await job.future


class RunningCallback:
    """One call of a callback."""

    def __init__(self, owner: Callbacks, loop: ClientLoop, call: Callable[[], Awaitable[None] | None]) -> None:
        self.owner = owner
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self.done = False
        self._loop = loop
        self._call = call
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    def begin(self) -> None:
        """Run the callback in its own task."""
        self._task = self._loop.event_loop.create_task(self._run(), name="mqplug-callback")
        self._task.add_done_callback(self._end)

    async def _run(self) -> None:
        _running.set(self)
        answer = self._call()
        if inspect.isawaitable(answer):
            await answer

    def _end(self, task: asyncio.Task[None]) -> None:
        self.done = True
        self._failure = None if task.cancelled() else task.exception()
        self.jobs.put(None)

    def wait(self) -> None:
        """Do the callback's jobs until it ends, and raise its error. Give up if the loop no longer runs."""
        while True:
            try:
                job = self.jobs.get(timeout=LOOP_CHECK_S)
            except Empty:
                if not self._loop.event_loop.is_running():
                    return
                continue
            if job is None:
                break
            job.do()
        if self._failure is not None:
            raise self._failure
