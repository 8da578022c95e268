"""How callers wait for sent records: one of them serves the driver's reports, the others sleep."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from mqplug._base.bell import Bell

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline

PUMP_SLICE_S = 0.1  # the longest wait of a driver, and so of Ctrl-C and deadlines


class AwaitedSend(Protocol):
    """A record, or a run of records, whose outcome a caller waits for."""

    waiter: Bell | None

    @property
    def awaited(self) -> AwaitedSend | None:
        """The part to wait for now; None once all is settled."""
        ...


Wait = Callable[[AwaitedSend, "Deadline"], None]
"""A function that waits until this is settled or the time is up."""


class Pump:
    """The driver's reports, served by one waiter at a time. The others sleep until it is their turn."""

    def __init__(self, pump: Callable[[float], None]) -> None:
        self._pump = pump
        self._serving = Lock()
        self._sleepers: set[Bell] = set()

    def wait(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        """Wait until this is settled or the time is up. With no time at all, serve reports once."""
        while not self._serve(wanted, deadline):
            self._sleep(wanted, deadline)
            if wanted.awaited is None or deadline.expired:
                return

    def serve(self) -> None:
        """Serve the available reports, unless another thread is serving."""
        if self._serving.acquire(blocking=False):
            try:
                self._pump(0)
            finally:
                self._hand_on()

    def _serve(self, wanted: AwaitedSend, deadline: Deadline) -> bool:
        """Serve until this is settled or the time is up. Return False if another thread is serving."""
        if not self._serving.acquire(blocking=False):
            return False
        try:
            while wanted.awaited is not None:
                left = deadline.remaining(PUMP_SLICE_S)
                self._pump(left)
                if left <= 0:
                    break
        finally:
            self._hand_on()
        return True

    def _hand_on(self) -> None:
        self._serving.release()
        for sleeper in tuple(self._sleepers)[:1]:
            sleeper.ring()

    def _sleep(self, wanted: AwaitedSend, deadline: Deadline) -> None:
        target = wanted.awaited
        if target is None:
            return
        bell = target.waiter = target.waiter or Bell()
        self._sleepers.add(bell)
        try:  # the thread that was serving may have missed this bell
            if self._serving.locked() and target.awaited is not None:
                bell.wait(deadline.remaining(PUMP_SLICE_S))
        finally:
            self._sleepers.discard(bell)
            if target.awaited is None:  # others may wait for the same
                bell.ring()
