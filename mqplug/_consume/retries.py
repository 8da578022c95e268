"""Retries: when and how often a nacked message is delivered again; the nacked messages of one log."""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import Iterator
from contextlib import suppress

import attrs
from attrs.validators import ge, gt

from mqplug._consume.delivery import ACKED, OPEN, RETURNED, Delivery, NackedMessage
from mqplug._model.checks import number, whole_number


def _check_attempts(retry: object, attribute: object, value: int | None) -> None:
    if value is not None:
        whole_number("attempts (None: no end)", value, 1)


def _check_number(retry: object, attribute: attrs.Attribute[float], value: float) -> None:
    number(attribute.name, value)


@attrs.frozen
class Retry:
    """When to deliver a nacked message again: after ``delay`` seconds, then each time after ``backoff`` times as long.

    No wait is longer than ``longest`` seconds. After ``attempts`` attempts in all, the message goes to the consumer's
    ``dead_letter`` topic; None never gives up.
    """

    attempts: int | None = attrs.field(default=5, validator=_check_attempts)
    delay: float = attrs.field(default=1.0, validator=[_check_number, ge(0)])
    backoff: float = attrs.field(default=2.0, validator=[_check_number, ge(1)])
    longest: float = attrs.field(default=60.0, validator=[_check_number, gt(0)])

    def delay_after(self, attempt: int) -> float:
        """Return the seconds until a message that was nacked at this attempt, counted from 1, is delivered again."""
        return min(self.longest, self.delay * self.backoff ** min(attempt - 1, 64))

    def exhausted(self, attempt: int) -> bool:
        """Return whether this attempt was the last one."""
        return self.attempts is not None and attempt >= self.attempts


class Reject(Exception):
    """Raised by a handler whose message must not be retried: it goes to the ``dead_letter`` topic at once.

    It has the same effect in ``Consumer.handling``, and as the ``reason`` of ``Consumer.nack``. Without a
    ``dead_letter`` topic the message is nacked like any other.
    """


RETRY_FOREVER = Retry(attempts=None)
"""The policy of a consumer without ``retry=``."""


class NackedMessages:
    """The nacked messages of one log, in log order."""

    def __init__(self) -> None:
        self._waiting: list[NackedMessage] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[NackedMessage]:
        return iter(list(self._waiting))

    def give_back(self, delivery: Delivery, row: int, delay: float, *, attempts: int = 1) -> NackedMessage:
        """Make a message due again after ``delay`` seconds, and add ``attempts`` to its count."""
        again = delivery.again
        if again is not None:
            delivery.part_from_batch(delivery.tracker.passed)
        else:
            again = NackedMessage(delivery, row, delivery.batch.attempts[row], math.inf)
            insort(self._waiting, again, key=lambda each: each.coordinates)
        delivery.flags[row] = RETURNED
        again.attempt += attempts
        again.present = None
        self.set_due(again, delay)
        return again

    def set_due(self, again: NackedMessage, delay: float) -> None:
        """Deliver the message again after ``delay`` seconds."""
        again.due = time.monotonic() + delay

    def settle(self) -> bool:
        """Remove the acked messages. Return whether any of the rest hold others back."""
        if not self._waiting:  # nearly always
            return False
        for again in tuple(self._waiting):
            present = again.present
            if present is not None and present.flags[0] == ACKED:
                self.forget(again)
        return bool(self._among(True))

    def _among(self, in_order: bool) -> list[NackedMessage]:
        """Return the messages that no transaction acked; only the first one if in order."""
        open_ones = [each for each in tuple(self._waiting) if not each.pending]
        return open_ones[:1] if in_order else open_ones

    def forget(self, again: NackedMessage) -> None:
        """Mark the message as acked and remove it."""
        flags = again.delivery.flags
        if again.row < len(flags):  # the delivery may be folded by now
            flags[again.row] = ACKED
        if (present := again.present) is not None:
            present.flags[0] = ACKED
            present.part_from_batch(present.tracker.passed)
            again.present = None
        with suppress(ValueError):  # another thread removed it first
            self._waiting.remove(again)

    def release(self, gone: Delivery) -> None:
        """Forget all messages. Acks of their current deliveries become acks of this one."""
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            if (present := again.present) is not None:
                present.part_from_batch(gone)
                again.present = None

    def take_due(self, *, in_order: bool = True) -> Delivery | None:
        """Return a delivery of the first message, or of any if not ``in_order``, if it is due; otherwise None."""
        self.settle()
        now = time.monotonic()
        again = next((each for each in self._among(in_order) if each.present is None and each.due <= now), None)
        if again is None:
            return None
        batch = again.delivery.batch
        once_more = batch.take([again.row], batch.next_position).with_attempts([again.attempt])
        again.present = Delivery(once_more, again.delivery.tracker, again, again.delivery.still_holds)
        return again.present

    def take_back_unseen(self) -> None:
        """Deliver messages once more whose current delivery the caller did not get."""
        for again in self:
            if again.present is not None and again.present.left:
                again.present = None

    def wait(self, *, in_order: bool = True) -> float:
        """Return the seconds until the first message, or any if not ``in_order``, is due."""
        due = min((each.due for each in self._among(in_order) if each.present is None), default=math.inf)
        return max(0.0, due - time.monotonic())

    def last_due(self) -> float:
        """Return the ``time.monotonic`` time at which the last waiting message is due; 0 if none waits."""
        return max((each.due for each in self if each.present is None and each.due < math.inf), default=0.0)

    @property
    def unsettled(self) -> int:
        """The number of messages that were delivered again and are not settled."""
        presents = [each.present for each in self]  # read once: another thread may nack or forget one
        return sum(present is not None and present.flags[0] == OPEN for present in presents)
