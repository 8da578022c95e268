"""A producer's sends to a store of another process: in order, many at once, and again to the next owner.

Each send has a number, which the owner stores together with the pages. A send whose answer was lost can be sent again
to the next owner: it is stored once, and its answer is the offset that it has.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from mqplug import AlreadyOpen, ConnectError, Error, OutcomeUnknown, Timeout
from mqplug.spi import Deadline
from mqplug_rocksmq._driver.producers import SendCallback
from mqplug_rocksmq._format.page import PageBody
from mqplug_rocksmq._processes.client_connection import OwnerGone
from mqplug_rocksmq._processes.outlets import NumberedSend, Outlet, SendOutcome
from mqplug_rocksmq._store.deduplication import SLOT_COUNT

RESEND_WITHIN_S: Final = 300.0  # owners remember a send for longer
MIN_REOPEN_S: Final = 0.2

Reopen = Callable[[bytes, Outlet | None, float], Outlet]
"""Opens an outlet for the producer of this name. With a failed outlet, opens one to the next owner."""


class ResendingSink:
    """The sink of one producer."""

    def __init__(self, reopen: Reopen, timeout: float) -> None:
        self._reopen = reopen
        self._name = uuid.uuid4().bytes
        self._lock = threading.Lock()
        self._serving = threading.Lock()
        self._sends: dict[int, NumberedSend] = {}  # unanswered, in order
        self._waiting: deque[NumberedSend] = deque()
        self._next = 0
        self._lost = False
        self._outlet = reopen(self._name, None, timeout)

    def append(self, topic: str, partition: int, bodies: Sequence[PageBody], settled: SendCallback) -> None:
        pages = [body.seal(0) for body in bodies]
        with self._lock:
            send = NumberedSend(self._next, topic, partition, pages, settled)
            self._next += 1
            self._sends[send.sequence] = send
            self._waiting.append(send)
            self._push()

    def _push(self) -> None:
        """Pass on the sends that may go now. The lock is held."""
        try:
            while self._waiting and not self._lost:
                if self._waiting[0].sequence - next(iter(self._sends)) >= SLOT_COUNT:
                    return
                if not self._outlet.send(self._waiting[0]):
                    return
                send = self._waiting.popleft()
                send.sent = send.sent or time.monotonic()
        except OwnerGone:
            self._lost = True

    def serve(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        if not self._serving.acquire(timeout=timeout):
            return
        try:
            if self._lost:
                self._send_again(timeout)
            outcomes = self._receive(deadline.remaining())
            if self._waiting:
                with self._lock:
                    self._push()
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
            send = self._sends.pop(outcome.sequence, None)
            self._push()
        if send is not None:
            send.settled(outcome.log, outcome.first, outcome.error)

    def _send_again(self, timeout: float) -> None:
        """Send unanswered sends to the next owner, if there is one yet."""
        self._give_up(lambda send: send.sent is not None and send.sent < time.monotonic() - RESEND_WITHIN_S)
        try:
            outlet = self._reopen(self._name, self._outlet, max(timeout, MIN_REOPEN_S))
        except (AlreadyOpen, ConnectError, Timeout):
            return
        except Error as error:  # the store is damaged, the disk is full: it will have no owner
            self._give_up(lambda _: True, error)
            raise
        self._outlet.drop()
        with self._lock:
            self._outlet, self._lost = outlet, False
            self._waiting = deque(self._sends.values())
            for send in self._waiting:
                send.again = True
            self._push()

    def _give_up(self, hopeless: Callable[[NumberedSend], bool], reason: Error | None = None) -> None:
        """Settle these sends as unknown: owners forget old sends, so that nothing reports whether they were stored."""
        with self._lock:
            lost = [send for send in self._sends.values() if hopeless(send)]
            self._waiting = deque(send for send in self._waiting if send not in lost)
        for send in lost:
            error: Error = OutcomeUnknown("the process that owned the store ended before it answered")
            error.__cause__ = reason
            if send.sent is None and reason is not None:
                error = reason
            self._settle(SendOutcome(send.sequence, None, 0, error))

    def ring(self) -> None:
        """Do nothing: only a thread inside ``serve`` settles sends."""

    def close(self, timeout: float) -> None:
        self._outlet.close(timeout)
