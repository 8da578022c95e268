"""One at a time at a driver: the receiving thread gives way to those that seek, tend or close."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident

from mqplug._deadline import Deadline
from mqplug._errors import ConcurrentUse, Timeout


class Gate:
    """Guards the calls of a consumer driver that may not overlap."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._holder: int | None = None
        self._waiting = 0
        self._receiver: int | None = None

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """One caller at a time may receive; a second thread gets ``ConcurrentUse`` at once."""
        me = get_ident()
        with self._changed:
            if self._receiver is not None:
                raise ConcurrentUse(
                    "another thread is receiving from this consumer",
                    operation="receive",
                )
            self._receiver = me
        try:
            yield
        finally:
            self._receiver = None

    @property
    def busy(self) -> bool:
        """Whether a thread is in receive now."""
        return self._receiver is not None

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Hold the driver for one poll; whoever else waits for it comes first."""
        with self._changed:
            while self._holder is not None or self._waiting:
                self._changed.wait()
            self._holder = get_ident()
        try:
            yield
        finally:
            self._release()

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
                if not self._changed.wait_for(lambda: self._holder is None, deadline.remaining(1e6)):
                    raise Timeout("the consumer's driver is busy and did not yield in time", fix="Try again")
                self._holder = get_ident()
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def _release(self) -> None:
        with self._changed:
            self._holder = None
            self._changed.notify_all()
