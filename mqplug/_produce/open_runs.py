"""The runs of one producer that still take records, by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator

from mqplug._produce.collected_run import CollectedRun

Runs = dict[int, CollectedRun]
"""The open runs of a topic, by partition."""


class OpenRuns:
    """Open runs, the oldest first. The queue's lock is held in all calls that change something."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        """What the runs reserved of the queue."""
        self._by_topic: dict[str, Runs] = {}
        self._all: dict[CollectedRun, None] = {}

    def of_topic(self, topic: str) -> Runs:
        """Return the open runs of a topic. They stay in this dictionary."""
        return self._by_topic.setdefault(topic, {})

    def that_may_overlap(self, topic: str, partition: int) -> list[CollectedRun]:
        """Return the open runs whose records may be for the same partition as those of a new run.

        Where the driver chooses the partition, which is -1 then, that may be any.
        """
        return [run for run in self.of_topic(topic).values() if (run.partition < 0) != (partition < 0)]

    def add(self, run: CollectedRun) -> None:
        """Add a run that was opened."""
        self._all[run] = None
        self.of_topic(run.topic)[run.partition] = run
        self.messages += run.reserved[0]
        self.bytes += run.reserved[1]

    def remove(self, run: CollectedRun) -> None:
        """Remove a run, if it is here."""
        if run in self._all:
            self.of_topic(run.topic).pop(run.partition, None)
            del self._all[run]
            self.messages -= run.reserved[0]
            self.bytes -= run.reserved[1]
        if not self._all:  # also when an interrupt came in between
            self.messages = self.bytes = 0

    def used(self) -> tuple[int, int]:
        """Return the messages and bytes that were collected."""
        runs = self._all
        return sum(len(run.rows) for run in runs), sum(run.used_bytes for run in runs)

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[CollectedRun]:
        return iter(list(self._all))

    def __contains__(self, run: object) -> bool:
        return run in self._all
