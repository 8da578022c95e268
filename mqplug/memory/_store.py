"""The store: topics and groups, in this process's memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from threading import Condition, Lock

from mqplug._model.errors import ConfigError, ConsumerBusy, GroupNotFound, TopicExists, TopicNotFound
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._clock import Clock
from mqplug.memory._groups import Group
from mqplug.memory._partition import Partition, TopicRetention
from mqplug.memory._personality import FULL, Personality
from mqplug.memory._staging import MemoryStaging
from mqplug.spi import GroupInfo, GroupPosition, TopicInfo
from mqplug.spi.groups import Roster

DEFAULT_RETENTION_S = 7 * 24 * 3600.0


class Store:
    """Topics and groups. Everything happens under ``changed``, which is notified of each change."""

    def __init__(self, name: str, personality: Personality = FULL) -> None:
        self.name = name
        self.personality = personality
        self.changed = Condition()
        self.clock = Clock(self.changed)
        self._topics: dict[str, list[Partition]] = {}
        self._groups: dict[str, Group] = {}
        self.staging = MemoryStaging(name, self.partition)
        self._ledgers: Iterator[int] = count(1)

    # topics ------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, retention: float | None = None, size: int | None = None) -> TopicInfo:
        """Create a topic."""
        if topic in self._topics:
            raise TopicExists(f"the topic {topic!r} exists already", topic=topic)
        incarnation = uuid.uuid4().hex[:16] if self.personality.incarnations else ""
        kept = TopicRetention(DEFAULT_RETENTION_S if retention is None else retention, size)
        self._topics[topic] = [self._partition(topic, number, incarnation, kept) for number in range(partitions)]
        return self.describe(topic)

    def _partition(self, topic: str, number: int, incarnation: str, retention: TopicRetention) -> Partition:
        personality = self.personality
        log = Log("memory", self.name, topic, number, incarnation)
        numbering = personality.numbering(self._ledgers)
        return Partition(log, numbering, retention, self.clock.time, publish_time=personality.publish_time)

    def add_partitions(self, topic: str, total: int) -> TopicInfo:
        """Add partitions. Groups with a position on the topic read them from their beginning, live members too."""
        there = self.topic(topic)
        if total <= len(there):
            raise ValueError(f"{topic!r} has {len(there)} partitions; pass a larger total than that, not {total}")
        first = there[0]
        more = range(len(there), total)
        added = [self._partition(topic, number, first.log.incarnation, first.retention) for number in more]
        there += added
        for group in self._groups.values():
            if any(each.log in group for each in there):
                group.commit({each.log: GroupPosition(Position(each.log, each.low)) for each in added})
            group.roster.extend(first.log, [each.log for each in added])
        self.changed.notify_all()
        return self.describe(topic)

    def delete(self, topic: str) -> None:
        """Delete a topic, and the positions of groups on it."""
        logs = [each.log for each in self.topic(topic)]
        for group in self._groups.values():
            group.forget(logs)
        del self._topics[topic]
        self.changed.notify_all()

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._topics)

    def describe(self, topic: str) -> TopicInfo:
        """Return the description of a topic."""
        partitions = self.topic(topic)
        kept = partitions[0].retention
        return TopicInfo(topic, tuple(each.log for each in partitions), kept.seconds, kept.size)

    def topic(self, name: str) -> list[Partition]:
        """Return the partitions of a topic."""
        try:
            return self._topics[name]
        except KeyError:
            raise TopicNotFound(f"there is no topic {name!r}", topic=name) from None

    def partition(self, log: Log) -> Partition:
        """Return the partition of a log, with what it retains now; ``TopicNotFound`` when its topic was deleted, even
        if there is a new one of this name.
        """
        partitions = self.topic(log.topic)
        if log.partition >= len(partitions) or partitions[log.partition].log is not log:
            raise TopicNotFound(f"the topic {log.topic!r} was deleted and made again", topic=log.topic)
        partition = partitions[log.partition]
        partition.expire()
        return partition

    # groups ------------------------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """Return the group of this name; it is made on first use."""
        if name not in self._groups:
            self._groups[name] = Group(self.personality, self.partition, self.clock.monotonic)
        return self._groups[name]

    def groups(self, topic: str | None) -> list[GroupInfo]:
        """Return the groups that have a position, on this topic or on any."""
        return [
            GroupInfo(name, len(group.roster))
            for name, group in sorted(self._groups.items())
            if any(topic in {None, log.topic} for log in group.logs)
        ]

    def delete_group(self, name: str) -> None:
        """Forget a group without members."""
        if name not in self._groups or not self._groups[name].logs:
            raise GroupNotFound(f"there is no group {name!r}", fix="List the groups")
        self.check_idle(name)
        del self._groups[name]

    def check_idle(self, name: str) -> None:
        """Raise ``ConsumerBusy`` if the group has members."""
        if name in self._groups and len(self._groups[name].roster):
            raise ConsumerBusy(f"the group {name!r} has members", fix="Close its consumers first")

    def positions(self, group: str, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        """Return a group's positions on those of the logs where it has one."""
        return self._groups[group].positions(logs) if group in self._groups else {}

    def store_positions(self, group: str, positions: Mapping[Log, GroupPosition]) -> None:
        """Store the positions of a group's members."""
        self.group(group).commit(positions)

    def roster(self, group: str) -> Roster:
        """Return the members of a group."""
        return self.group(group).roster

    # waiting -----------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` for a change. The lock is held."""
        self.clock.wait(seconds, alone=not any(group.roster.moving for group in self._groups.values()))


_named: dict[str, tuple[Store, int]] = {}
_naming = Lock()


def open_memory_store(name: str | None, personality: Personality) -> Store:
    """Return the store of this name, which all clients of the process share while one of them is open.

    Without a name, return a new one.
    """
    if name is None:
        return Store(uuid.uuid4().hex[:16], personality)
    with _naming:
        store, users = _named.get(name) or (Store(name, personality), 0)
        if store.personality is not personality:
            raise ConfigError(
                f"the store {name!r} is open with like={store.personality.name!r}, not {personality.name!r}",
                backend="memory", fix="Pass the same like= as the others, or another name",
            )  # fmt: skip
        _named[name] = store, users + 1
    return store


def release_store(store: Store) -> None:
    """Release a client's store; a named one is forgotten with the last client that has it open."""
    with _naming:
        known, users = _named.get(store.name, (None, 0))
        if known is not store:
            return
        if users > 1:
            _named[store.name] = store, users - 1
        else:
            del _named[store.name]
