"""The loop that asyncio objects belong to, their blocking calls on threads, and ``async with``."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.errors import ConcurrentUse, Error
from mqplug._plugins.backend import NO_TIMEOUT_S
from mqplug.aio._thread_pool import ThreadPool

T = TypeVar("T")

LOOP_TURN_S = 0.001  # after which calls that need not wait let other tasks run


class ClientLoop:
    """The event loop of a client and of all that it opened, with the threads for their blocking calls."""

    def __init__(self) -> None:
        self.event_loop = asyncio.get_running_loop()
        self.pool = ThreadPool(self.event_loop, "mqplug-aio")
        self._fork = ForkGuard()
        self.turn_ends = 0.0  # when calls that need not wait let other tasks run

    def check(self) -> None:
        """Raise ``ConcurrentUse`` in another loop, ``ForkedClient`` in a child process."""
        self._fork.check()
        if asyncio.get_running_loop() is not self.event_loop:
            raise ConcurrentUse(
                "this was opened in another event loop", fix="Connect again inside the loop that uses it"
            )

    async def call(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Call ``work`` on a thread. Cancelled, it still ends there, and ``undo`` gets its result."""
        self.check()
        future = self.pool.start(work, undo)
        try:
            return await future
        except asyncio.CancelledError:
            if undo is not None and not future.cancelled() and future.exception() is None:  # it ended just before
                self.pool.start(partial(undo, future.result()))
            raise

    @property
    def is_due(self) -> bool:
        """Whether it is time to let other tasks run."""
        return time.monotonic() > self.turn_ends

    async def give_way(self) -> None:
        """Let the loop's other tasks run."""
        self.check()
        await asyncio.sleep(0)
        self.turn_ends = time.monotonic() + LOOP_TURN_S


class AsyncClosable(ABC):
    """Something to be closed, at the latest at the end of its ``async with`` block."""

    @abstractmethod
    async def close(self, timeout: float | None = 30) -> None:
        """Close. May be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Error) if error is not None else nullcontext():  # the first error says more
            await self.close()


class AsyncChild(AsyncClosable):
    """A producer or consumer of a client. It is closed once, on a thread; a second close waits for the first."""

    def __init__(self, loop: ClientLoop, on_closed: Callable[[Any], object]) -> None:
        self._loop = loop
        self._on_closed = on_closed
        self._closed = False
        self._close_ended = Event()

    def begin_close(self) -> Callable[[Deadline], None]:
        """Refuse later calls. Return the function that closes this, to be called on a thread."""
        if self._closed:
            return self._await_end
        self._closed = True
        return partial(self._end, self._prepare_close())

    @abstractmethod
    def _prepare_close(self) -> Callable[[Deadline], None]:
        """Return the function that closes this, to be called on a thread."""

    def _end(self, close: Callable[[Deadline], None], deadline: Deadline) -> None:
        try:
            close(deadline)
        finally:
            self._close_ended.set()
            self._loop.pool.call_on_loop(self._on_closed, self)

    def _await_end(self, deadline: Deadline) -> None:
        self._close_ended.wait(deadline.remaining(NO_TIMEOUT_S))


C = TypeVar("C", bound=AbstractAsyncContextManager[Any, Any])


class Opening(Generic[C]):
    """An object that is being opened: ``await`` it, or enter it with ``async with``."""

    def __init__(self, opened: Coroutine[Any, Any, C]) -> None:
        self._opened = opened
        self._made: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._opened.__await__()

    async def __aenter__(self) -> C:
        self._made = await self
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, trace)
