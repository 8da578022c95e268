"""``Retry``: how often a nacked message comes again, and when; ``Reject``: that it must not."""

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
    """Delivers a nacked message again: after ``delay`` seconds, then each time after ``backoff`` times as long.

    After ``attempts`` attempts in all it goes to the consumer's ``dead_letter`` topic; None never gives up.
    """

    attempts: int | None = attrs.field(default=5, validator=_check_attempts)
    delay: float = attrs.field(default=1.0, validator=[_check_number, ge(0)])
    backoff: float = attrs.field(default=2.0, validator=[_check_number, ge(1)])
    longest: float = attrs.field(default=60.0, validator=[_check_number, gt(0)])

    def delay_after(self, attempt: int) -> float:
        """Return the seconds until a message that was nacked at this attempt, counted from 1, comes again."""
        return min(self.longest, self.delay * self.backoff ** min(attempt - 1, 64))

    def exhausted(self, attempt: int) -> bool:
        """Return whether this attempt was the last one."""
        return self.attempts is not None and attempt >= self.attempts


class Reject(Exception):
    """Raised by a handler whose message must not be retried: it goes to the ``dead_letter`` topic at once.

    It means the same within ``Consumer.handling``, and as the ``reason`` of ``Consumer.nack``. Without a
    ``dead_letter`` topic the message is nacked as any other.
    """


RETRY_FOREVER = Retry(attempts=None)
"""The policy of a consumer without ``retry=``."""
