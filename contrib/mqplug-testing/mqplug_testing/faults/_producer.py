"""Puts faults around a producer's driver: messages and answers get lost, come late or come twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Lock

from mqplug import Error, Log, OutcomeUnknown
from mqplug.spi import Deadline, Numbers, ProducerDriver, Sending
from mqplug.spi.proxies import ProducerProxy, SendingProxy
from mqplug_testing.faults._calls import close
from mqplug_testing.faults._rules import FaultPicker

LATE_ANSWER_CHECK_S = 0.01  # seconds between checks for due answers


class FaultyProducer(ProducerProxy):
    """A producer's driver with a fault for each message that a rule strikes."""

    def __init__(self, inner: ProducerDriver, picker: FaultPicker) -> None:
        super().__init__(inner)
        self._picker = picker
        self._late = LateAnswers()

    def send(self, sendings: Sequence[Sending]) -> None:
        passed = [each for sending in sendings for each in self._with_fault(sending)]
        if passed:
            self.inner.send(passed)

    def _with_fault(self, sending: Sending) -> Sequence[Sending]:
        """Return the records to hand to the driver for this one: none, one or two."""
        rule = self._picker.pick("send", [(sending.topic, sending.partition)])
        if rule is None:
            return [sending]
        match rule.action:
            case "fail":
                sending.failed(rule.make_error())
                return []
            case "drop":
                sending.unknown(OutcomeUnknown("mqplug_testing.faults lost the message before it was stored"))
                return []
            case "lose_ack":
                return [Unanswered(sending)]
            case "duplicate":
                return [sending, Duplicate(sending)]
            case "delay":
                return [Late(sending, partial(self._late.add, rule.delay))]

    def pump(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        if self._late.deliver() or not self._late:
            self.inner.pump(timeout)
            return
        self.inner.pump(self._late.next_in(timeout))
        if self._late.deliver():
            return
        # The driver returned early: it settled something, or only answers that are held back here are in flight.
        time.sleep(self._late.next_in(deadline.remaining(LATE_ANSWER_CHECK_S)))
        self._late.deliver()

    def close(self, timeout: float) -> None:
        try:
            close(self._picker.pick("close"), self.inner.close, timeout)
        finally:
            self._late.deliver(everything=True)


class Unanswered(SendingProxy):
    """A record that is stored, but reported as unknown."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self.inner.unknown(OutcomeUnknown("mqplug_testing.faults lost the answer"))


class Duplicate(SendingProxy):
    """The second copy of a record. Its outcome is ignored: the first copy reports."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """Ignore it."""

    def failed(self, error: Error) -> None:
        """Ignore it."""

    def unknown(self, error: Error) -> None:
        """Ignore it."""


class Late(SendingProxy):
    """A record that is sent in time, but whose answer is held back."""

    __slots__ = ("_hold",)

    def __init__(self, inner: Sending, hold: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(inner)
        self._hold = hold

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self._hold(partial(self.inner.stored, log, coordinates, detail))

    def failed(self, error: Error) -> None:
        self._hold(partial(self.inner.failed, error))

    def unknown(self, error: Error) -> None:
        self._hold(partial(self.inner.unknown, error))


class LateAnswers:
    """Answers that are held back until they are due. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = count()
        self._held: list[tuple[float, int, Callable[[], None]]] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, delay: float, answer: Callable[[], None]) -> None:
        """Hold an answer back for ``delay`` seconds."""
        with self._lock:
            heappush(self._held, (time.monotonic() + delay, next(self._number), answer))

    def next_in(self, most: float) -> float:
        """Return the seconds until the next answer is due, at most ``most``."""
        with self._lock:
            return min(most, max(0.0, self._held[0][0] - time.monotonic())) if self._held else most

    def deliver(self, *, everything: bool = False) -> bool:
        """Deliver the answers that are due. Return whether there were any."""
        given = False
        while (answer := self._pop(everything)) is not None:
            answer()
            given = True
        return given

    def _pop(self, everything: bool) -> Callable[[], None] | None:
        with self._lock:
            if self._held and (everything or self._held[0][0] <= time.monotonic()):
                return heappop(self._held)[2]
        return None
