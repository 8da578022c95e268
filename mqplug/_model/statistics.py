"""What producers and consumers count."""

from __future__ import annotations

import attrs


@attrs.frozen
class ProducerStatistics:
    """What became of the messages of a producer: ``accepted`` is the sum of the other four."""

    stored: int
    failed: int
    """Proven not to be stored."""
    unknown: int
    waiting: int
    """On their way."""
    bytes: int
    """Values, keys and headers of all that was accepted."""

    @property
    def accepted(self) -> int:
        """How many messages the producer took."""
        return self.stored + self.failed + self.unknown + self.waiting
