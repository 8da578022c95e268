"""The kit's waiting times, of three kinds."""

from __future__ import annotations

from typing import Self

import attrs
from attrs.validators import gt


@attrs.frozen(kw_only=True)
class Waiting:
    """Seconds to wait, for each kind of waiting.

    ``something`` bounds the wait for an expected event; the wait ends as soon as it happens. ``nothing`` is how long to
    watch for an event that must not happen: it is always waited out, so a backend that is slow to deliver needs more.
    ``poll`` is the pause between two looks at a condition that cannot be waited for.
    """

    something: float = attrs.field(default=30.0, validator=gt(0))
    nothing: float = attrs.field(default=0.2, validator=gt(0))
    poll: float = attrs.field(default=0.01, validator=gt(0))

    def scaled(self, factor: float) -> Self:
        """Return a copy with all three multiplied by `factor`."""
        return attrs.evolve(
            self, something=self.something * factor, nothing=self.nothing * factor, poll=self.poll * factor
        )
