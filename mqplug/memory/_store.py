"""Logs kept in this process's memory."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_left
from collections.abc import Iterable
from threading import Condition

from mqplug._batch import Batch, ListColumns
from mqplug._errors import PositionLost, TopicExists, TopicNotFound
from mqplug._log import Log
from mqplug._position import Position
from mqplug._record import CheckedRecord, Headers
from mqplug.spi import GroupPosition, Roster, TopicInfo


class Partition:
    """One log as columns. Row ``i`` has the offset ``low + i``; offsets are never used twice."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.low = 0
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []
        self.times: list[int] = []
        self.latest: list[int] = []  # the running maximum of times: what a search by time looks at

    @property
    def high(self) -> int:
        return self.low + len(self.values)

    def append(self, record: CheckedRecord) -> int:
        """Store a record; its offset."""
        moment = record.timestamp if record.timestamp is not None else time.time_ns() // 1_000_000
        self.keys.append(record.key)
        self.headers.append(record.headers)
        self.times.append(moment)
        self.latest.append(max(moment, self.latest[-1]) if self.latest else moment)
        self.values.append(record.value)
        return self.high - 1

    def read(self, offset: int, most: int) -> Batch | None:
        """The messages from an offset on; None if there are none yet."""
        if offset < self.low:
            raise PositionLost(
                f"{self.log!r} has no message {offset} any more: it begins at {self.low}",
                log=self.log,
                low=Position(self.log, (self.low,)),
            )
        stop = min(self.high, offset + most)
        if offset >= stop:
            return None
        rows = slice(offset - self.low, stop - self.low)
        columns = ListColumns(
            list(zip(range(offset, stop), strict=False)), self.values[rows], self.keys[rows], self.headers[rows],
            self.times[rows], self.times[rows],
        )  # fmt: skip
        return Batch(self.log, Position(self.log, (stop,)), stop - offset, columns)

    def at_time(self, milliseconds: int) -> int:
        """The offset of the first message at or after a time; the high if there is none."""
        return self.low + bisect_left(self.latest, milliseconds)

    def trim(self, before: int) -> None:
        """Remove what lies before an offset."""
        gone = min(max(0, before - self.low), len(self.values))
        for column in (self.keys, self.values, self.headers, self.times, self.latest):
            del column[:gone]
        self.low += gone


class Store:
    """Topics and groups. Everything happens under ``changed``, which is notified of each change."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = Condition()
        self._topics: dict[str, list[Partition]] = {}
        self._groups: dict[str, dict[Log, GroupPosition]] = {}
        self._rosters: dict[str, Roster] = {}

    def create(self, topic: str, partitions: int) -> TopicInfo:
        if topic in self._topics:
            raise TopicExists(f"there is a topic {topic!r} already", topic=topic)
        incarnation = uuid.uuid4().hex[:16]
        logs = [Log("memory", self.name, topic, number, incarnation) for number in range(partitions)]
        self._topics[topic] = [Partition(log) for log in logs]
        return TopicInfo(topic, tuple(logs))

    def delete(self, topic: str) -> None:
        for partition in self.topic(topic):
            for positions in self._groups.values():
                positions.pop(partition.log, None)
        del self._topics[topic]

    def names(self) -> list[str]:
        return sorted(self._topics)

    def topic(self, name: str) -> list[Partition]:
        try:
            return self._topics[name]
        except KeyError:
            raise TopicNotFound(f"there is no topic {name!r}", topic=name) from None

    def partition(self, log: Log) -> Partition:
        """The partition of a log; ``TopicNotFound`` when its topic was deleted, also if there is a new one."""
        partitions = self.topic(log.topic)
        if log.partition >= len(partitions) or partitions[log.partition].log is not log:
            raise TopicNotFound(f"the topic {log.topic!r} was deleted and made again", topic=log.topic)
        return partitions[log.partition]

    def positions(self, group: str, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        stored = self._groups.get(group, {})
        return {log: stored[log] for log in logs if log in stored}

    def store_positions(self, group: str, positions: dict[Log, GroupPosition]) -> None:
        self._groups.setdefault(group, {}).update(positions)

    def roster(self, group: str) -> Roster:
        return self._rosters.setdefault(group, Roster())


_named: dict[str, Store] = {}


def open_store(name: str | None) -> Store:
    """The store of this name, shared by the whole process; without a name, one of its own."""
    if name is None:
        return Store(uuid.uuid4().hex[:16])
    return _named.setdefault(name, Store(name))
