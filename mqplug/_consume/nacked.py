"""Messages that were given back where order counts: each comes again, the first one first, and holds back the rest."""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import suppress

from mqplug._consume.delivery import ACKED, OPEN, RETURNED, Delivery, NackedMessage


class NackedMessages:
    """Those of one log, in log order."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or time.monotonic
        self._waiting: list[NackedMessage] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[NackedMessage]:
        return iter(list(self._waiting))

    def give_back(self, delivery: Delivery, row: int, delay: float) -> NackedMessage:
        """A message was nacked: it is due again after so many seconds."""
        again = delivery.again
        if again is None:
            again = NackedMessage(delivery, row, delivery.batch.attempts[row], math.inf)
            insort(self._waiting, again, key=lambda each: each.coordinates)
        delivery.flags[row] = RETURNED
        again.attempt += 1
        again.present = None
        self.set_due(again, delay)
        return again

    def set_due(self, again: NackedMessage, delay: float) -> None:
        """It comes again after so many seconds."""
        again.due = self._now() + delay

    def settle(self) -> None:
        """Let go of those that are acked by now."""
        for again in self:
            present = again.present
            if present is not None and present.flags[0] == ACKED:
                self.forget(again)

    def forget(self, again: NackedMessage) -> None:
        """This one is acked."""
        again.delivery.flags[again.row] = ACKED
        if again.present is not None:
            again.present.flags[0] = ACKED
        with suppress(ValueError):  # another thread was quicker
            self._waiting.remove(again)

    def take_due(self) -> Delivery | None:
        """The first one, if its time has come: to be delivered again."""
        self.settle()
        if not self._waiting:
            return None
        again = self._waiting[0]
        if again.present is not None or again.due > self._now():
            return None
        batch = again.delivery.batch
        once_more = batch.take([again.row], batch.next_position).with_attempts([again.attempt])
        again.present = Delivery(once_more, again.delivery.tracker, again, again.delivery.still_holds)
        return again.present

    def wait(self) -> float:
        """Seconds until the next one is due."""
        if not self._waiting or self._waiting[0].present is not None:
            return math.inf
        return max(0.0, self._waiting[0].due - self._now())

    @property
    def unsettled(self) -> int:
        """How many are with the caller again."""
        return sum(each.present is not None and each.present.flags[0] == OPEN for each in self._waiting)
