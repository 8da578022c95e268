"""Closing: by ``with``, and within a deadline even if the client hangs. A missing close causes a warning."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakMethod

from mqplug._base.deadline import Deadline
from mqplug._base.fork import ForkGuard
from mqplug._model.errors import CloseIncomplete, Error, PluginError

if TYPE_CHECKING:
    from types import TracebackType

CLOSE_DEFAULT_S = 30.0  # how long a close without a timeout waits
CLOSE_GRACE_S = 0.5  # how long a driver's close may overrun its timeout


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method while its object lives, and afterwards does nothing and returns None.

    It is for callbacks that a driver gives to its own client. With the method itself, each would keep the other, and
    the client's threads and sockets, until garbage is collected; or forever, if the client is written in C.
    """
    found = WeakMethod(method)

    def call(*arguments: Any) -> Any:
        alive = found()
        return None if alive is None else alive(*arguments)

    return call


def close_native(what: str, close: Callable[[float], None], deadline: Deadline) -> CloseIncomplete | PluginError | None:
    """Run a driver's close. One that overruns is abandoned on a daemon thread, with a ``ResourceWarning``.

    Its error is returned, in the form that the caller raises once everything else is released.
    """
    seconds = deadline.remaining(CLOSE_DEFAULT_S)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            close(seconds)
        except BaseException as error:  # noqa: BLE001 - reported to the waiting thread
            failure.append(error)

    thread = threading.Thread(target=run, name=f"mqplug-close-{what}", daemon=True)
    thread.start()
    thread.join(seconds + CLOSE_GRACE_S)
    if thread.is_alive():
        warnings.warn(f"closing {what} took too long and was abandoned", ResourceWarning, stacklevel=3)
    return _incomplete(what, failure[0]) if failure else None


def _incomplete(what: str, cause: BaseException) -> CloseIncomplete | PluginError:
    if isinstance(cause, PluginError):
        return cause
    said = cause.message if isinstance(cause, Error) else f"{type(cause).__name__}: {cause}"
    made = CloseIncomplete(
        f"{what} was released, but its close failed: {said}",
        operation="close",
        fix="See the cause; it is closed anyway",
    )
    made.__cause__ = cause
    return made


class Closable(ABC):
    """An object that is closed at the latest at the end of its ``with`` block."""

    @abstractmethod
    def close(self, timeout: float | None = 30) -> None:
        """Close. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Error) if error is not None else nullcontext():  # the first error says more
            self.close()


class Session(Closable):
    """The base of clients, producers and consumers, shared with their asyncio versions.

    One thread closes it, once. It warns if it is garbage-collected without a close.
    """

    _holds_something = False  # set once it is open, so that a missing close warns

    def __init__(self) -> None:
        self.fork = ForkGuard()
        self.closed = False
        self._closer: int | None = None  # the thread that closes it
        self._close_lock = threading.Lock()
        self._ended = threading.Event()

    @contextmanager
    def _closing_once(self, deadline: Deadline) -> Iterator[bool]:
        """Yield whether the caller must close this object. If another thread closes it, wait for that first."""
        with self._close_lock:
            mine = not self.closed and not self.fork.crossed
            self.closed = True
            if mine:
                self._closer = threading.get_ident()
        if not mine and self._closer not in {None, threading.get_ident()} and not self.fork.crossed:
            self._ended.wait(deadline.remaining(CLOSE_DEFAULT_S))
        try:
            yield mine
        finally:
            if mine:
                self._ended.set()

    def __del__(self) -> None:
        if self._holds_something and not self.closed and not self.fork.crossed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
