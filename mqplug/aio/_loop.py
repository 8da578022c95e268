"""The loop that asyncio objects belong to, the daemon threads for their blocking calls, and ``async with``."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import copy_context
from functools import partial, wraps
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.errors import ConcurrentUse, Error
from mqplug._plugins.backend import NO_TIMEOUT_S

P = ParamSpec("P")
T = TypeVar("T")

LOOP_TURN_S = 0.001  # after this, calls that need not wait let other tasks run


class ClientLoop:
    """The event loop of a client and of the objects that it opened, with the threads for their blocking calls."""

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
        """Call ``work`` on a thread. If cancelled, it still finishes there, and ``undo`` gets its result."""
        self.check()
        future = self.pool.start(work, undo)
        try:
            return await future
        except asyncio.CancelledError:
            if undo is not None and not future.cancelled() and future.exception() is None:  # it ended right before
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


Called = Callable[Concatenate[Any, P], T]
Awaited = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


def on_thread(method: Called[P, T]) -> Awaited[P, T]:
    """Return the asyncio version of a method of ``self.sync``, with its parameters and types. A thread calls it."""

    @wraps(method)
    async def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._call(partial(getattr(self.sync, method.__name__), *args, **kwargs))
        return result

    return _named_after(method, call)


def at_once(method: Called[P, T]) -> Awaited[P, T]:
    """As ``on_thread``, for a method that does not wait. The loop makes the call."""

    @wraps(method)
    async def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        self._loop.check()
        result: T = getattr(self.sync, method.__name__)(*args, **kwargs)
        return result

    return _named_after(method, call)


def _named_after(method: Called[P, T], call: Any) -> Awaited[P, T]:
    call.__qualname__ = f"Async{method.__qualname__}"
    call.__doc__ = f"As ``{method.__qualname__}``."
    return call  # type: ignore[no-any-return]


def noted(call: Awaited[P, T], note: str) -> Awaited[P, T]:
    """Return the call with a note at the end of its docstring."""
    call.__doc__ = f"{call.__doc__} {note}"
    return call


class AsyncClosable(ABC):
    """An object that is closed at the latest at the end of its ``async with`` block."""

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
        """Refuse later calls. Return the function that closes this object, to be called on a thread."""
        if self._closed:
            return self._await_end
        self._closed = True
        return partial(self._end, self._prepare_close())

    @abstractmethod
    def _prepare_close(self) -> Callable[[Deadline], None]:
        """Return the function that closes this object, to be called on a thread."""

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


class Job(Generic[T]):
    """A call for a thread, and the future of its result.

    ``undo`` gets the result if no caller can get it, because the caller was cancelled or the loop is closed.
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
    """A pool with one thread for each running job. An idle thread takes the next job.

    The threads are daemons, so that a hanging client does not keep the interpreter from exiting. Jobs are created and
    started on the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.event_loop = loop
        self.busy = 0  # jobs whose end the loop has not seen yet
        self._name = name
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._threads = 0
        self._shut_down = False

    def start(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> asyncio.Future[T]:
        """Call ``work`` on a thread, whether or not its future is awaited."""
        job = Job(self, work, undo)
        if self.busy > self._threads:
            self._threads += 1
            Thread(target=_serve, args=(self._jobs,), name=self._name, daemon=True).start()
        self._jobs.put(job)
        if self._shut_down:
            self.shut_down()
        return job.future

    def call_on_loop(self, function: Callable[..., object], *arguments: object) -> bool:
        """Make the loop call this function, from any thread. Return False if the loop is closed."""
        try:
            self.event_loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            return False
        return True

    def shut_down(self) -> None:
        """End each thread after its job. A later job gets a new thread."""
        self._shut_down = True
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0

    def __del__(self) -> None:
        self.shut_down()


def _serve(jobs: SimpleQueue[Job[Any] | None]) -> None:
    """Do jobs until a None comes."""
    while (job := jobs.get()) is not None:
        job.do()
        del job  # frees its references before the next job comes
