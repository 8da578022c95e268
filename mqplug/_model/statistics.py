"""Counters of producers."""

from __future__ import annotations

import attrs


@attrs.frozen
class ProducerStatistics:
    """The numbers of messages of a producer by outcome; ``accepted`` is the sum of the first four."""

    stored: int
    failed: int
    """Proven not to be stored."""
    unknown: int
    waiting: int
    """Messages in flight."""
    bytes: int
    """Bytes of the values, keys and headers of all accepted messages."""

    @property
    def accepted(self) -> int:
        """The number of messages that the producer accepted."""
        return self.stored + self.failed + self.unknown + self.waiting
