"""The partitions that a native consumer does not fetch: paused ones, or all while the caller does not poll."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, TopicPartition

from mqplug_kafka._consume.message_columns import Name


class PausedPartitions:
    """Single pauses and the pause of all partitions, kept apart: ending one does not end the other."""

    def __init__(self, native: Consumer) -> None:
        self._native = native
        self._all_paused = False
        self.paused: set[Name] = set()

    def move_to(self, native: Consumer, held: Collection[Name]) -> None:
        """Keep the pauses in another native consumer, which holds these partitions."""
        self._native = native
        self._stop(held if self._all_paused else self.paused)

    def taken(self, names: Collection[Name]) -> None:
        """Pause or resume partitions assigned just now: the native client remembers pauses of earlier assignments."""
        (self._stop if self._all_paused else self._go)(names)

    def restarted(self, held: Collection[Name]) -> None:
        """Pause or resume all partitions, after the native client was told anew to fetch them."""
        self.taken(set(held) - self.paused)
        self._stop(self.paused & set(held))

    def pause(self, names: Collection[Name]) -> None:
        """Stop fetching these partitions."""
        self.paused.update(names)
        self._stop(names)

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again, unless all are paused."""
        ended = self.paused & set(names)
        self.paused -= ended
        if not self._all_paused:
            self._go(ended)

    def pause_all(self, held: Collection[Name]) -> None:
        """Stop fetching all partitions."""
        if not self._all_paused:
            self._all_paused = True
            self._stop(set(held) - self.paused)

    def resume_all(self, held: Collection[Name]) -> None:
        """Fetch all partitions again that are not paused singly."""
        if self._all_paused:
            self._all_paused = False
            self._go(set(held) - self.paused)

    def _stop(self, names: Iterable[Name]) -> None:
        self._native.pause([TopicPartition(*name) for name in names])

    def _go(self, names: Iterable[Name]) -> None:
        self._native.resume([TopicPartition(*name) for name in names])
