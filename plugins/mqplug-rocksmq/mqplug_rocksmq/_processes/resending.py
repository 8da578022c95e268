"""Sends to a store that another process owns: in order, many on their way, and again to the next owner.

Each send has a number. The owner notes it together with the pages, so that a send whose answer was lost can be sent
again to the next owner: it is stored once, and its answer is the offset that it has.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from mqplug import AlreadyOpen, ConnectError, Error, OutcomeUnknown, Timeout
from mqplug_rocksmq._driver.sinks import SendCallback
from mqplug_rocksmq._format.page import Body
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.outlets import NumberedSend, Outlet, SendOutcome
from mqplug_rocksmq._store.deduplication import SLOTS

RESEND_WITHIN_S: Final = 300.0  # seconds for which a send may be sent again: owners know it for longer
MIN_REOPEN_S: Final = 0.2

Reopen = Callable[[bytes, Outlet | None, float], Outlet]
"""Opens a way to the owner for the producer of this name; with the one that failed, to the next owner."""


class ResendingSink:
    """The sends of one producer, as its sink."""

    def __init__(self, reopen: Reopen, timeout: float) -> None:
        self._reopen = reopen
        self._name = uuid.uuid4().bytes
        self._lock = threading.Lock()
        self._serving = threading.Lock()
        self._parcels: dict[int, NumberedSend] = {}  # on their way or waiting, in order
        self._waiting: deque[NumberedSend] = deque()
        self._next = 0
        self._lost = False
        self._outlet = reopen(self._name, None, timeout)

    def append(self, topic: str, partition: int, bodies: Sequence[Body], settled: SendCallback) -> None:
        pages = [body.seal(0) for body in bodies]
        with self._lock:
            parcel = NumberedSend(self._next, topic, partition, pages, settled)
            self._next += 1
            self._parcels[parcel.sequence] = parcel
            self._waiting.append(parcel)
            self._push()

    def _push(self) -> None:
        """Send what may be on its way now. The lock is held."""
        try:
            while self._waiting and not self._lost:
                if self._waiting[0].sequence - next(iter(self._parcels)) >= SLOTS:
                    return
                if not self._outlet.send(self._waiting[0]):
                    return
                parcel = self._waiting.popleft()
                parcel.sent = parcel.sent or time.monotonic()
        except OwnerGone:
            self._lost = True

    def serve(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        if not self._serving.acquire(timeout=timeout):
            return
        try:
            if self._lost:
                self._send_again(timeout)
            outcomes = self._receive(max(0.0, end - time.monotonic()))
        finally:
            self._serving.release()
        for outcome in outcomes:
            self._settle(outcome)

    def _receive(self, timeout: float) -> list[SendOutcome]:
        try:
            return self._outlet.receive(timeout) if not self._lost else []
        except OwnerGone:
            self._lost = True
            return []

    def _settle(self, outcome: SendOutcome) -> None:
        with self._lock:
            parcel = self._parcels.pop(outcome.sequence, None)
            self._push()
        if parcel is not None:
            parcel.settled(outcome.log, outcome.first, outcome.error)

    def _send_again(self, timeout: float) -> None:
        """Go on with the next owner, if there is one yet."""
        self._give_up(lambda parcel: parcel.sent is not None and parcel.sent < time.monotonic() - RESEND_WITHIN_S)
        try:
            outlet = self._reopen(self._name, self._outlet, max(timeout, MIN_REOPEN_S))
        except (AlreadyOpen, ConnectError, Timeout):
            return
        except Error as error:  # the store is damaged, the disk is full: nobody will own it
            self._give_up(lambda _: True, error)
            raise
        self._outlet.drop()
        with self._lock:
            self._outlet, self._lost = outlet, False
            self._waiting = deque(self._parcels.values())
            for parcel in self._waiting:
                parcel.again = True
            self._push()

    def _give_up(self, hopeless: Callable[[NumberedSend], bool], reason: Error | None = None) -> None:
        """Owners forget what was sent long ago: what became of it cannot be asked any more."""
        with self._lock:
            lost = [parcel for parcel in self._parcels.values() if hopeless(parcel)]
            self._waiting = deque(parcel for parcel in self._waiting if parcel not in lost)
        for parcel in lost:
            error: Error = OutcomeUnknown("the owner of the store was killed before it answered")
            error.__cause__ = reason
            if parcel.sent is None and reason is not None:
                error = reason
            self._settle(SendOutcome(parcel.sequence, None, 0, error))

    def ring(self) -> None:
        """Whoever serves has settled it."""

    def close(self, timeout: float) -> None:
        self._outlet.close(timeout)
