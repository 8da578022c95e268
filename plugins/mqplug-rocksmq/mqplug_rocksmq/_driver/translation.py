"""From the words of mqplug to those of the store: from logs to numbers, from positions to offsets and places."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mqplug import Log, Position, TopicNotFound
from mqplug.spi import GroupPosition, Numbers
from mqplug_rocksmq._format.keys import Place
from mqplug_rocksmq._settings import BACKEND
from mqplug_rocksmq._store.topics import Topic

MAX_OFFSET: Final = 2**63 - 1  # offsets have 64 bits


def topic_logs(store: str, topic: Topic) -> tuple[Log, ...]:
    """Return the log of each partition."""
    return tuple(partition_log(store, topic, partition) for partition in range(len(topic.logs)))


def partition_log(store: str, topic: Topic, partition: int) -> Log:
    """Return the log of one partition; what tells it from an older one of that name is its number."""
    return _log(store, topic.name, partition, topic.logs[partition])


@lru_cache(maxsize=1024)  # each send asks for one
def _log(store: str, topic: str, partition: int, number: int) -> Log:
    return Log(BACKEND, store, topic, partition, str(number))


def log_number(store: str, log: Log) -> int:
    """Return the number of a log of this store."""
    if log.backend != BACKEND or log.cluster != store or not log.incarnation.isdecimal():
        raise TopicNotFound(f"{log!r} is not of this store", topic=log.topic)
    return int(log.incarnation)


def offset_of(position: Position) -> int:
    """Return the offset of the next message at a position."""
    return position.coordinates[0]


def is_offset(coordinates: Numbers) -> bool:
    """Return whether an id or a position can have these: one offset, and room for the next."""
    return len(coordinates) == 1 and 0 <= coordinates[0] < MAX_OFFSET


def position_at(log: Log, offset: int) -> Position:
    """Return the position just before an offset."""
    return Position(log, (offset,))


def stored_position(stands: GroupPosition) -> Place:
    """Return a group's position as it is stored."""
    acked = [(first[0], last[0] + 1) for first, last in stands.acked]
    return Place(offset_of(stands.position), tuple(acked))


def group_position(log: Log, place: Place) -> GroupPosition:
    """Return what was stored as a group's position."""
    acked = tuple(((start,), (stop - 1,)) for start, stop in place.acked)
    return GroupPosition(position_at(log, place.offset), acked)
