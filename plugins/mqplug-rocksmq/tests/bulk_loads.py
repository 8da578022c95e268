"""Helpers that stage and ingest messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from store_seam import IngestOutcome, RocksMQStage, Store, files_of, topic_logs

import mqplug
from mqplug import Record, Staged
from mqplug.spi import TopicInfo


class Batch:
    """Messages of one partition, in the form that a stage receives."""

    headers = None

    def __init__(
        self, values: Sequence[bytes | None], partition: int = 0, keys: Any = None, timestamps: Any = None
    ) -> None:
        self.values, self.partition, self.keys, self.timestamps = values, partition, keys, timestamps
        self.ends = None
        self.size = sum(len(value or b"") for value in values)

    def __len__(self) -> int:
        return len(self.values)

    def arrow(self, names: Sequence[str]) -> dict[str, Any]:
        return {}


def stage(store: Store, topic: str = "orders") -> Any:
    """Open a stage through the driver interface."""
    found = TopicInfo(topic, topic_logs(store.id, store.topics.get(topic)))
    return RocksMQStage(store.id, store.path, found, store.ingestion.reserve)


def staged(store: Store, *pages: Sequence[bytes | None], topic: str = "orders", time: int = 1000) -> Staged:
    """Stage pages for the first partition."""
    open_stage = stage(store, topic)
    for values in pages:
        open_stage.write(Batch(values, timestamps=[time] * len(values)), 10)
        for partition, draft in open_stage._drafts.items():
            if draft.messages:
                open_stage._encode(partition, draft)
    found: Staged = open_stage.finish(10)
    return found


def take(store: Store, *several: Staged, writer: str = "job", number: int = 0) -> IngestOutcome:
    """Ingest staged messages."""
    return store.ingestion.ingest(writer, number, files_of(store.id, several), 30)


def records(count: int, first: int = 0, **fields: Any) -> list[Record]:
    """Return *count* records with their numbers as keys and values."""
    return [Record(b"%d" % number, key=b"%d" % number, **fields) for number in range(first, first + count)]


def stage_all(mq: mqplug.Client, topic: str, *batches: Sequence[Record | bytes]) -> Staged:
    """Stage batches with a client."""
    with mq.stage(topic) as open_stage:
        for batch in batches:
            open_stage.write(batch)
        return open_stage.finish()


def read_all(mq: mqplug.Client, topic: str) -> dict[int, list[bytes | None]]:
    """Return all values of a topic, by partition."""
    found: dict[int, list[bytes | None]] = {}
    for message in mq.read(topic):
        found.setdefault(message.partition, []).append(message.value)
    return found


def waiting(path: Path) -> list[str]:
    """Return the names of the staged files that are not ingested yet."""
    folder = path / "staging"
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []
