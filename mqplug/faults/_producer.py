"""A producer whose messages and answers get lost, come late, or come twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Lock

from mqplug._model.errors import Error
from mqplug._model.log import Log
from mqplug._model.outcome import OutcomeUnknown
from mqplug._model.text import Numbers
from mqplug.faults._calls import close
from mqplug.faults._rules import Dice
from mqplug.spi import Deadline, ProducerDriver, Sending
from mqplug.spi.proxies import ProducerProxy, SendingProxy

LATE_ANSWER_CHECK_S = 0.01  # seconds between looks, while answers are held back


class FaultyProducer(ProducerProxy):
    """Decides for each message."""

    def __init__(self, inner: ProducerDriver, dice: Dice) -> None:
        super().__init__(inner)
        self._dice = dice
        self._late = LateAnswers()

    def send(self, sendings: Sequence[Sending]) -> None:
        passed = [each for sending in sendings for each in self._fate(sending)]
        if passed:
            self.inner.send(passed)

    def _fate(self, sending: Sending) -> Sequence[Sending]:
        """What is handed over for a message."""
        rule = self._dice.throw("send", [(sending.topic, sending.partition)])
        if rule is None:
            return [sending]
        match rule.action:
            case "fail":
                sending.failed(rule.make_error())
                return []
            case "drop":
                sending.unknown(OutcomeUnknown("mqplug.faults lost the message on its way"))
                return []
            case "lose_ack":
                return [Unanswered(sending)]
            case "duplicate":
                return [sending, Unheard(sending)]
            case "delay":
                return [Late(sending, partial(self._late.add, rule.delay))]

    def pump(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        if self._late.give() or not self._late:
            self.inner.pump(timeout)
            return
        self.inner.pump(self._late.next_in(timeout))
        if self._late.give():
            return
        # It came back early: something was settled, or nothing is on its way but what is held back here.
        time.sleep(self._late.next_in(deadline.remaining(LATE_ANSWER_CHECK_S)))
        self._late.give()

    def close(self, timeout: float) -> None:
        try:
            close(self._dice.throw("close"), self.inner.close, timeout)
        finally:
            self._late.give(everything=True)


class Unanswered(SendingProxy):
    """Stored, but nobody hears of it."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        self.inner.unknown(OutcomeUnknown("mqplug.faults lost the answer"))


class Unheard(SendingProxy):
    """The second of two: what becomes of it is nobody's business."""

    __slots__ = ()

    def stored(self, log: Log, coordinates: Numbers, detail: Numbers = ()) -> None:
        """The first one tells."""

    def failed(self, error: Error) -> None:
        """The first one tells."""

    def unknown(self, error: Error) -> None:
        """The first one tells."""


class Late(SendingProxy):
    """Sent in time, but its answer is held back."""

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
        """Hold an answer back for so long."""
        with self._lock:
            heappush(self._held, (time.monotonic() + delay, next(self._number), answer))

    def next_in(self, most: float) -> float:
        """Seconds until the next answer is due, at most so many."""
        with self._lock:
            return min(most, max(0.0, self._held[0][0] - time.monotonic())) if self._held else most

    def give(self, *, everything: bool = False) -> bool:
        """Give the answers that are due; whether there were any."""
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
