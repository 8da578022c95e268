"""One at a time at a driver: the receiving thread gives way to those that seek, tend or close."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock, get_ident

from mqplug._base.deadline import Deadline
from mqplug._model.errors import ConcurrentUse, Timeout


class DriverLock:
    """Guards the calls of a consumer driver that may not overlap."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._sleepers = 0  # nobody is notified where nobody waits: this is passed with every poll
        self._holder: int | None = None
        self._waiting = 0
        self._receiver = Lock()
        self.receiving = _Receiving(self._receiver)
        """A context for receiving: one caller at a time. A second thread gets ``ConcurrentUse`` at once."""
        self.polling = _Polling(self._enter_to_poll, self._release)
        """A context that holds the driver for one poll. Others who wait for the driver come first."""

    @property
    def busy(self) -> bool:
        """Whether a thread is in receive now."""
        return self._receiver.locked()

    def _enter_to_poll(self) -> None:
        me = get_ident()  # which holds it already where Ctrl-C came just as it was taken
        with self._lock:
            if self._waiting or self._holder not in {None, me}:
                self._sleep_until(lambda: self._holder in {None, me} and not self._waiting, None)
            self._holder = me

    @contextmanager
    def entering(self, wake: Callable[[], None], deadline: Deadline) -> Iterator[None]:
        """Hold the driver for anything else: a running poll is woken, and the next one waits."""
        if self._holder == get_ident():  # a callback of ours runs inside this thread's poll
            yield
            return
        self._enter(wake, deadline)
        try:
            yield
        finally:
            self._release()

    def _enter(self, wake: Callable[[], None], deadline: Deadline) -> None:
        with self._changed:
            self._waiting += 1
        try:
            if self._holder is not None:
                wake()
            with self._changed:
                if not self._sleep_until(lambda: self._holder is None, deadline.remaining(1e6)):
                    raise Timeout("the consumer's driver is busy and did not yield in time", fix="Try again")
                self._holder = get_ident()
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def _sleep_until(self, possible: Callable[[], bool], timeout: float | None) -> bool:
        self._sleepers += 1
        try:
            return self._changed.wait_for(possible, timeout)
        finally:
            self._sleepers -= 1

    def _release(self) -> None:
        with self._lock:
            self._holder = None
            if self._sleepers:
                self._changed.notify_all()


class _Receiving:
    """Made once for all calls: a generator for each of them would cost more than what it does."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUse("another thread is receiving from this consumer", operation="receive")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class _Polling:
    """The same."""

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()
