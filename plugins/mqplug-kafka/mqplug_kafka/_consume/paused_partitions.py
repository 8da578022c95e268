"""What a native consumer does not fetch: partitions that were paused, or all of them while the caller is away."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, TopicPartition

from mqplug_kafka._consume.message_columns import Name


class PausedPartitions:
    """Keeps the two apart: the end of the one does not end the other."""

    def __init__(self, native: Consumer) -> None:
        self._native = native
        self._at_rest = False
        self.paused: set[Name] = set()

    def taken(self, names: Collection[Name]) -> None:
        """These were assigned just now. The native client remembers a pause of those that came and went before."""
        (self._stop if self._at_rest else self._go)(names)

    def pause(self, names: Collection[Name]) -> None:
        """Fetch nothing of these."""
        self.paused.update(names)
        self._stop(names)

    def resume(self, names: Iterable[Name]) -> None:
        """Go on with these, unless all is at rest."""
        ended = self.paused & set(names)
        self.paused -= ended
        if not self._at_rest:
            self._go(ended)

    def rest(self, held: Collection[Name]) -> None:
        """Fetch nothing at all."""
        if not self._at_rest:
            self._at_rest = True
            self._stop(set(held) - self.paused)

    def go_on(self, held: Collection[Name]) -> None:
        """Go on with all that is not paused."""
        if self._at_rest:
            self._at_rest = False
            self._go(set(held) - self.paused)

    def _stop(self, names: Iterable[Name]) -> None:
        self._native.pause([TopicPartition(*name) for name in names])

    def _go(self, names: Iterable[Name]) -> None:
        self._native.resume([TopicPartition(*name) for name in names])
