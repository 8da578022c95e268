"""A memory store: its topics and groups, its clock, which tests can advance, and the named stores of the process."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from threading import Condition, Lock

from mqplug._model.errors import ConfigError, ConsumerBusy, GroupNotFound, TopicExists, TopicNotFound
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.memory._groups import Group
from mqplug.memory._partition import MemoryRetention, Partition
from mqplug.memory._personality import FULL, Personality
from mqplug.memory._staging import MemoryStaging
from mqplug.spi import GroupDescription, GroupInfo, GroupPosition, TopicInfo, TransactionMark

DEFAULT_RETENTION_S = 7 * 24 * 3600.0


class Store:
    """A store of topics and groups. Every call needs the lock ``changed``, which is notified of each change."""

    def __init__(self, name: str, personality: Personality = FULL) -> None:
        self.name = name
        self.personality = personality
        self.changed = Condition()
        self.clock = Clock(self.changed)
        self._topics: dict[str, list[Partition]] = {}
        self._groups: dict[str, Group] = {}
        self.staging = MemoryStaging(name, self.partition)
        self.holders: dict[str, object] = {}
        """The driver that holds each transaction name."""
        self.marks: dict[tuple[str, str], TransactionMark] = {}
        """The highest committed number of each transaction name and topic."""
        self._ledgers: Iterator[int] = count(1)

    # topics ------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, retention: float | None = None, size: int | None = None) -> TopicInfo:
        """Create a topic."""
        if topic in self._topics:
            raise TopicExists(f"the topic {topic!r} already exists", topic=topic)
        incarnation = uuid.uuid4().hex[:16] if self.personality.incarnations else ""
        kept = MemoryRetention(DEFAULT_RETENTION_S if retention is None else retention, size)
        self._topics[topic] = [self._partition(topic, number, incarnation, kept) for number in range(partitions)]
        return self.describe(topic)

    def _partition(self, topic: str, number: int, incarnation: str, retention: MemoryRetention) -> Partition:
        personality = self.personality
        log = Log("memory", self.name, topic, number, incarnation)
        numbering = personality.numbering(self._ledgers)
        return Partition(log, numbering, retention, self.clock.time, publish_time=personality.publish_time)

    def alter(self, topic: str, retention: float | None, size: int | None) -> TopicInfo:
        """Change a topic's retention; None leaves a limit unchanged. Messages that exceed it are removed at once."""
        partitions = self.topic(topic)
        there = partitions[0].retention
        kept = MemoryRetention(there.seconds if retention is None else retention, there.size if size is None else size)
        for partition in partitions:
            partition.retention = kept
            partition.expire()
        self.changed.notify_all()
        return self.describe(topic)

    def add_partitions(self, topic: str, total: int) -> TopicInfo:
        """Grow a topic to ``total`` partitions.

        Groups with a position on the topic, and active members, read the new ones from their beginning.
        """
        there = self.topic(topic)
        if total <= len(there):
            raise ValueError(
                f"the topic {topic!r} already has {len(there)} partitions: expected a higher total, not {total}"
            )
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
        self.marks = {key: mark for key, mark in self.marks.items() if key[1] != topic}
        self.changed.notify_all()

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._topics)

    def describe(self, topic: str) -> TopicInfo:
        """Return a topic's logs and retention."""
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
        """Return the partition of a log after expiry.

        Raise ``TopicNotFound`` if the topic was deleted, even if a new one has its name.
        """
        partitions = self.topic(log.topic)
        if log.partition >= len(partitions) or partitions[log.partition].log is not log:
            raise TopicNotFound(f"the topic {log.topic!r} was deleted and created again", topic=log.topic)
        partition = partitions[log.partition]
        partition.expire()
        return partition

    def numbered(self, topic: str, number: int) -> Partition:
        """Return a partition of a topic that a producer knows, perhaps from before it was created again."""
        partitions = self.topic(topic)
        if number >= len(partitions):
            raise TopicNotFound(f"the topic {topic!r} was created again, without partition {number}", topic=topic)
        return partitions[number]

    # groups ------------------------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """Return the group of this name. Create it on first use."""
        if name not in self._groups:
            self._groups[name] = Group(self.personality, self.partition, self.clock.monotonic)
        return self._groups[name]

    def groups(self, topic: str | None) -> list[GroupInfo]:
        """Return the groups that have a position on this topic, or on any topic."""
        return [
            GroupInfo(name, len(group.roster))
            for name, group in sorted(self._groups.items())
            if any(topic in {None, log.topic} for log in group.logs)
        ]

    def describe_group(self, name: str) -> GroupDescription:
        """Return a group's topics and members. Raise ``GroupNotFound`` if it has no position and no member."""
        group = self._groups.get(name)
        logs = {*group.logs, *group.roster.wanted()} if group is not None else set()
        if group is None or not logs:
            raise GroupNotFound(f"there is no group {name!r}", fix="List the groups with client.groups()")
        topics = {log.topic for log in logs} & self._topics.keys()
        return GroupDescription(name, tuple(sorted(topics)), group.roster.members())

    def delete_group(self, name: str) -> None:
        """Delete a group without members."""
        if name not in self._groups or not self._groups[name].logs:
            raise GroupNotFound(f"there is no group {name!r}", fix="List the groups with client.groups()")
        self.check_idle(name)
        del self._groups[name]

    def check_idle(self, name: str) -> None:
        """Raise ``ConsumerBusy`` if the group has members."""
        if name in self._groups and (members := len(self._groups[name].roster)):
            raise ConsumerBusy(f"the group {name!r} has {members} members", fix="Close its consumers first")

    def positions(self, group: str, logs: Iterable[Log]) -> dict[Log, GroupPosition]:
        """Return a group's positions in the logs where it has one."""
        return self._groups[group].positions(logs) if group in self._groups else {}

    def store_positions(self, group: str, positions: Mapping[Log, GroupPosition]) -> None:
        """Store positions of a group."""
        self.group(group).commit(positions)

    # waiting -----------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Wait up to ``seconds`` for a change. Needs the lock."""
        self.clock.wait(seconds, alone=not any(group.roster.moving for group in self._groups.values()))


_named: dict[str, tuple[Store, int]] = {}
_naming = Lock()


def open_memory_store(name: str | None, personality: Personality) -> Store:
    """Open the store of this name, which all clients of the process share while one of them is open.

    Without a name, create a new store.
    """
    if name is None:
        return Store(uuid.uuid4().hex[:16], personality)
    with _naming:
        store, users = _named.get(name) or (Store(name, personality), 0)
        if store.personality is not personality:
            raise ConfigError(
                f"the store {name!r} is already open with like={store.personality.name!r}, not {personality.name!r}",
                backend="memory",
                fix="Use the same like= as its other clients, or another name",
            )
        _named[name] = store, users + 1
    return store


def release_store(store: Store) -> None:
    """Release a client's use of a store. The last client of a named store discards it."""
    with _naming:
        known, users = _named.get(store.name, (None, 0))
        if known is not store:
            return
        if users > 1:
            _named[store.name] = store, users - 1
        else:
            del _named[store.name]


class Clock:
    """The clock of a store. ``advance`` moves it forward and wakes the waits that are due.

    ``skips`` is for tests: a wait that no other thread can end returns at once, and the clock advances by its length.
    The methods are named as in the module ``time``, so a clock can replace that module.
    """

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._ahead = 0.0
        self.skips = False

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time() + self._ahead

    def monotonic(self) -> float:
        """Return the seconds since an unspecified time. Never decreases."""
        return time.monotonic() + self._ahead

    def time_ns(self) -> int:
        """Return the nanoseconds since 1970."""
        return time.time_ns() + int(self._ahead * 1e9)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, so that retention removes old messages and delays end."""
        if not seconds >= 0:
            raise ValueError(f"advance() takes at least 0 seconds, not {seconds}: the clock never goes back")
        with self._changed:
            self._ahead += seconds
            self._changed.notify_all()

    def wait(self, seconds: float, *, alone: bool) -> None:
        """Wait up to ``seconds`` for a change of the store. Needs the store's lock."""
        if self.skips and alone and _no_other_thread():
            self.advance(seconds)
        else:
            self._changed.wait(seconds)


BACKGROUND_THREAD = "mqplug-background"  # the thread that tends a client's consumers; it sends nothing


def _no_other_thread() -> bool:
    me = threading.current_thread()
    return all(each is me or each.name == BACKGROUND_THREAD for each in threading.enumerate())
