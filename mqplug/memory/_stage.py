"""The memory backend's stage, which collects messages for an ingest."""

from __future__ import annotations

from mqplug.memory._partition import Written
from mqplug.memory._staging import Part
from mqplug.memory._store import Store
from mqplug.spi import Run, Staged, TopicInfo


class MemoryStage:
    """A stage that collects messages of one topic."""

    def __init__(self, store: Store, topic: TopicInfo) -> None:
        self._store = store
        self._topic = topic
        self._parts: list[Part] = []

    def write(self, run: Run, timeout: float) -> None:
        self._parts.append(Part(self._topic.logs[run.partition], Written.of(run), run.size))

    def finish(self, timeout: float) -> Staged:
        with self._store.changed:
            return self._store.staging.keep(self._topic.name, self._parts)

    def discard(self) -> None:
        self._parts = []
