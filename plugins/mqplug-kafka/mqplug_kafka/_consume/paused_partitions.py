"""The partitions that a message source does not fetch: paused ones, or all while the caller does not poll."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mqplug_kafka._consume.message_source import MessageSource, Name


class PausedPartitions:
    """Single pauses and the pause of all partitions, kept apart: ending one does not end the other."""

    def __init__(self, source: MessageSource) -> None:
        self._source = source
        self._all_paused = False
        self.paused: set[Name] = set()

    def move_to(self, source: MessageSource, held: Collection[Name]) -> None:
        """Keep the pauses in another source, which holds these partitions."""
        self._source = source
        self._source.pause(held if self._all_paused else self.paused)

    def taken(self, names: Collection[Name]) -> None:
        """Pause or resume partitions assigned just now: the native client remembers pauses of earlier assignments."""
        (self._source.pause if self._all_paused else self._source.resume)(names)

    def restarted(self, held: Collection[Name]) -> None:
        """Pause or resume all partitions, after the native client was told anew to fetch them."""
        self.taken(set(held) - self.paused)
        self._source.pause(self.paused & set(held))

    def pause(self, names: Collection[Name]) -> None:
        """Stop fetching these partitions."""
        self.paused.update(names)
        self._source.pause(names)

    def resume(self, names: Iterable[Name]) -> None:
        """Fetch these partitions again, unless all are paused."""
        ended = self.paused & set(names)
        self.paused -= ended
        if not self._all_paused:
            self._source.resume(ended)

    def pause_all(self, held: Collection[Name]) -> None:
        """Stop fetching all partitions."""
        if not self._all_paused:
            self._all_paused = True
            self._source.pause(set(held) - self.paused)

    def resume_all(self, held: Collection[Name]) -> None:
        """Fetch all partitions again that are not paused singly."""
        if self._all_paused:
            self._all_paused = False
            self._source.resume(set(held) - self.paused)
