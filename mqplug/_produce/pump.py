"""The pump: how those who wait for outcomes get them, one of them serving the driver's reports for all."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from mqplug._base.bell import Bell

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline

PUMP_SLICE_S = 0.1  # seconds that a driver is asked to wait at most: Ctrl-C and deadlines wait no longer


class OnItsWay(Protocol):
    """A record, or a run of them, of which somebody wants to know what became of it."""

    waiter: Bell | None

    @property
    def awaited(self) -> OnItsWay | None:
        """What is to be waited for now; None when it is settled."""
        ...


Wait = Callable[[OnItsWay, "Deadline"], None]


class Pump:
    """One waiter at a time serves the reports; the others sleep until theirs is there, or it is their turn."""

    def __init__(self, pump: Callable[[float], None]) -> None:
        self._pump = pump
        self._serving = Lock()
        self._sleepers: set[Bell] = set()

    def wait(self, wanted: OnItsWay, deadline: Deadline) -> None:
        """Wait until this is settled, or the time is up; with no time at all, have a look."""
        while wanted.awaited is not None:
            if not self._serve(wanted, deadline):
                self._sleep(wanted, deadline)
            if deadline.expired:
                return

    def serve(self) -> None:
        """Serve what reports there are, unless somebody does already."""
        if self._serving.acquire(blocking=False):
            try:
                self._pump(0)
            finally:
                self._hand_on()

    def _serve(self, wanted: OnItsWay, deadline: Deadline) -> bool:
        """Serve until this is settled; False if somebody else does."""
        if not self._serving.acquire(blocking=False):
            return False
        try:
            while wanted.awaited is not None:
                self._pump(deadline.remaining(PUMP_SLICE_S))
                if deadline.expired:
                    break
        finally:
            self._hand_on()
        return True

    def _hand_on(self) -> None:
        self._serving.release()
        for sleeper in tuple(self._sleepers)[:1]:
            sleeper.ring()

    def _sleep(self, wanted: OnItsWay, deadline: Deadline) -> None:
        target = wanted.awaited
        if target is None:
            return
        bell = target.waiter = target.waiter or Bell()
        self._sleepers.add(bell)
        try:  # whoever served until a moment ago may not have seen us
            if self._serving.locked() and target.awaited is not None:
                bell.wait(deadline.remaining(PUMP_SLICE_S))
        finally:
            self._sleepers.discard(bell)
            if target.awaited is None:  # others may wait for the same
                bell.ring()
