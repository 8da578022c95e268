"""How often a message that was given back comes again, and when."""

from __future__ import annotations

import attrs
from attrs.validators import ge, gt

from mqplug._model.checks import number, whole_number


def _check_attempts(retry: object, attribute: object, value: int | None) -> None:
    if value is not None:
        whole_number("attempts (None: no end)", value, 1)


def _check_number(retry: object, attribute: attrs.Attribute[float], value: float) -> None:
    number(attribute.name, value)


@attrs.frozen
class Retry:
    """Deliver a message that was given back again: after ``delay`` seconds, then after ``backoff`` times as long.

    After so many ``attempts`` in all it goes to the consumer's ``dead_letter`` topic; None never gives up.
    """

    attempts: int | None = attrs.field(default=5, validator=_check_attempts)
    delay: float = attrs.field(default=1.0, validator=[_check_number, ge(0)])
    backoff: float = attrs.field(default=2.0, validator=[_check_number, ge(1)])
    longest: float = attrs.field(default=60.0, validator=[_check_number, gt(0)])

    def delay_after(self, attempt: int) -> float:
        """Seconds until a message comes again that was given back at this attempt, counted from 1."""
        return min(self.longest, self.delay * self.backoff ** min(attempt - 1, 64))

    def exhausted(self, attempt: int) -> bool:
        """Whether this attempt was the last one."""
        return self.attempts is not None and attempt >= self.attempts


PATIENT = Retry(attempts=None)
"""What a consumer does without ``retry=``."""
