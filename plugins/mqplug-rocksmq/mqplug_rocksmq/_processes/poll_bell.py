"""The bell of a poll that waits in the owner for a client process, which the thread that stores a message can answer.

That saves two changes of threads on the way of a message: to wake the poll's own thread, and to give it the
interpreter's lock.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Final

from mqplug.spi import Bell


class PollBell(Bell):
    """Wakes a poll that waits, as bytes from its client do. *answer* may use the poll's consumer while it waits."""

    __slots__ = ("_answer", "_awake", "_poll", "_ringing", "_rings", "_rung")

    def __init__(self, connection: int, answer: Callable[[], bool]) -> None:
        super().__init__()
        self._answer = answer
        self._awake = threading.Lock()  # held by the thread that may use the consumer
        self._awake.acquire()
        self._ringing = threading.Lock()
        self._rung = False
        self._rings: int | None = os.eventfd(0)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._rings, select.POLLIN)

    def ring(self) -> None:
        if _held.bells is not None:
            _held.bells.append(self)
        elif not self._rung:
            with self._ringing:
                if self._rings is not None and not self._rung:
                    self._rung = True
                    os.eventfd_write(self._rings, 1)

    def wait(self, timeout: float | None) -> bool:
        """Wait for a ring, or for bytes from the client. Return whether it rang."""
        self._awake.release()
        try:
            self._poll.poll(None if timeout is None else 1000 * timeout)
        finally:
            self._awake.acquire()  # once an answer under way is done
        with self._ringing:
            rung, self._rung = self._rung, False
            if rung and self._rings is not None:
                os.eventfd_read(self._rings)
        return rung

    def answer(self) -> bool:
        """Answer the poll in this thread. Return False if its own thread has to."""
        if self._awake.acquire(blocking=False):
            try:
                return self._answer()
            finally:
                self._awake.release()
        return False

    def close(self) -> None:
        """Release it. It may be rung all the same."""
        with self._ringing:
            if self._rings is not None:
                os.close(self._rings)
                self._rings = None


class _HeldRings(threading.local):
    """The bells that this thread rang while it holds rings back."""

    bells: list[PollBell] | None = None


_held: Final = _HeldRings()


def hold_rings() -> None:
    """Hold the rings of this thread back until ``ring_held``."""
    _held.bells = []


def answer_first() -> None:
    """Answer the first poll whose bell this thread holds back. The others wait until the sender has its own answer."""
    if (bells := _held.bells) and bells[0].answer():
        del bells[0]


def ring_held() -> None:
    """Answer the other polls, and wake the threads of those that need it."""
    bells, _held.bells = _held.bells, None
    for bell in bells or ():
        if not bell.answer():
            bell.ring()
