"""Translation between mqplug's terms and the store's: logs and their numbers, positions and offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mqplug import Log, MessageId, Position, TopicNotFound
from mqplug.spi import Connection, GroupPosition, Numbers
from mqplug_rocksmq._format.keys import StoredPosition
from mqplug_rocksmq._settings import BACKEND
from mqplug_rocksmq._store.topics import Topic

OFFSET_LIMIT: Final = 2**63 - 1


def topic_logs(store: str, topic: Topic) -> tuple[Log, ...]:
    """Return the log of each partition."""
    return tuple(partition_log(store, topic, partition) for partition in range(len(topic.logs)))


def partition_log(store: str, topic: Topic, partition: int) -> Log:
    """Return the log of one partition. Its number distinguishes it from an older log with that name.

    A producer may know more partitions than the topic has, if the topic was deleted and created again.
    """
    if partition >= len(topic.logs):
        raise TopicNotFound(
            f"the topic {topic.name!r} was created again, without partition {partition}", topic=topic.name
        )
    return _log(store, topic.name, partition, topic.logs[partition])


def log_at(store: str, topic: str, partition: int, number: int) -> Log:
    """Return the log with this number."""
    return _log(store, topic, partition, number)


@lru_cache(maxsize=1024)  # each send needs one
def _log(store: str, topic: str, partition: int, number: int) -> Log:
    return Log(BACKEND, store, topic, partition, str(number))


def log_number(store: str, log: Log) -> int:
    """Return the number of a log of this store."""
    if log.backend != BACKEND or log.cluster != store or not log.incarnation.isdecimal():
        raise TopicNotFound(f"{log!r} does not belong to this store", topic=log.topic)
    return int(log.incarnation)


def offset_of(position: Position) -> int:
    """Return the offset of the next message at a position."""
    return position.coordinates[0]


def position_at(log: Log, offset: int) -> Position:
    """Return the position just before an offset."""
    return Position(log, (offset,))


def stored_position(position: GroupPosition) -> StoredPosition:
    """Return a group's position as it is stored."""
    return StoredPosition(offset_of(position.position), stored_ranges(position.acked))


def stored_ranges(acked: Iterable[tuple[Numbers, Numbers]]) -> tuple[tuple[int, int], ...]:
    """Return acked ranges as they are stored."""
    return tuple([(first[0], last[0] + 1) for first, last in acked])


def group_position(log: Log, place: StoredPosition) -> GroupPosition:
    """Return a stored position as a group's position."""
    acked = tuple(((start,), (stop - 1,)) for start, stop in place.acked)
    return GroupPosition(position_at(log, place.offset), acked)


class OffsetArithmetic(Connection):
    """A connection's operations on ids and positions that need no request to the store."""

    @property
    @abstractmethod
    def store_id(self) -> str:
        """The id of the store."""

    def after(self, message_id: MessageId) -> Position:
        return position_at(message_id.log, message_id.coordinates[0] + 1)

    def is_possible(self, coordinates: Numbers) -> bool:
        """Return whether an id or a position can have these: one offset, with room for the next."""
        return len(coordinates) == 1 and 0 <= coordinates[0] < OFFSET_LIMIT

    def owns(self, log: Log) -> bool:
        return (log.backend, log.cluster) == (BACKEND, self.store_id)

    def advance(self, position: Position, count: int) -> Position:
        return position_at(position.log, min(offset_of(position) + count, OFFSET_LIMIT - 1))

    def distance(self, start: Position, until: Position) -> int:
        return offset_of(until) - offset_of(start)
