"""The staged messages of a store, which stay outside its logs until an ingest takes them in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import attrs

from mqplug._model.errors import ConfigError, Corrupt
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.position import Bounds
from mqplug.memory._partition import Partition, Written
from mqplug.spi import Ingest, Ingested, Staged


@attrs.frozen
class Part:
    """Staged messages for one log."""

    log: Log
    written: Written
    size: int

    def __len__(self) -> int:
        return len(self.written.values)


class MemoryStaging:
    """The staged messages and each writer's last ingest. All calls need the store's lock."""

    def __init__(self, store: str, partition: Callable[[Log], Partition]) -> None:
        self._store = store
        self._partition = partition
        self._waiting: dict[str, list[Part]] = {}
        self._last: dict[str, tuple[int, Ingested]] = {}

    def keep(self, topic: str, parts: list[Part]) -> Staged:
        """Keep the messages of a finished stage."""
        name = uuid.uuid4().hex
        self._waiting[name] = parts
        return Staged("memory", self._store, topic, sum(map(len, parts)), sum(part.size for part in parts), name)

    def ingest(self, wanted: Ingest) -> Ingested:
        """Take in staged messages, all or nothing, once for each number of a writer."""
        last, done = self._last.get(wanted.writer, (-1, Ingested(0, {})))
        if wanted.number <= last:
            self.discard(wanted.staged)
            return attrs.evolve(done if wanted.number == last else Ingested(0, {}), repeated=True)
        parts = self._find(wanted.staged)
        partitions = [self._partition(part.log) for part in parts]  # raises before anything is taken in
        placed: dict[Log, Bounds] = {}
        for part, partition in zip(parts, partitions, strict=True):
            ids = list(map(MessageId, [part.log] * len(part), *partition.append(*part.written)))
            known = placed.get(part.log)
            placed[part.log] = Bounds(known.first_id if known else ids[0], ids[-1])
        self.discard(wanted.staged)
        done = Ingested(sum(map(len, parts)), placed)
        self._last[wanted.writer] = wanted.number, done
        return done

    def discard(self, several: Sequence[Staged]) -> None:
        """Forget staged messages. Skip those that are already gone."""
        for each in several:
            self._waiting.pop(each.detail, None)

    def _find(self, several: Sequence[Staged]) -> list[Part]:
        if any((each.backend, each.cluster) != ("memory", self._store) for each in several):
            raise ConfigError("the staged batch is for another store", fix="Ingest it with a client of that store")
        if len({each.detail for each in several}) < len(several):
            raise ValueError("a staged batch is listed twice: pass each batch once")
        if any(each.detail not in self._waiting for each in several):
            raise Corrupt("the staged batch no longer exists", fix="Stage the messages again")
        return [part for each in several for part in self._waiting[each.detail]]
