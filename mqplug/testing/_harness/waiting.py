"""How long the kit waits: each of its waits is one of three kinds."""

from __future__ import annotations

from typing import Self

import attrs
from attrs.validators import gt


@attrs.frozen(kw_only=True)
class Waiting:
    """Seconds to wait, for each kind of waiting.

    ``something`` is for what has to come: it is waited for as long as that, and no longer than it takes. ``nothing``
    is for what must not come: it is always waited out, so a backend that is slow to deliver needs more. ``poll`` lies
    between two looks at a thing that cannot be waited for.
    """

    something: float = attrs.field(default=30.0, validator=gt(0))
    nothing: float = attrs.field(default=0.2, validator=gt(0))
    poll: float = attrs.field(default=0.01, validator=gt(0))

    def scaled(self, factor: float) -> Self:
        """All three, so many times as long."""
        return attrs.evolve(
            self, something=self.something * factor, nothing=self.nothing * factor, poll=self.poll * factor
        )
