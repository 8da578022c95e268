"""Topics and groups: each action of mqplug, carried out on a store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mqplug import ConfigError, Log, Unsupported
from mqplug.spi import (
    Action,
    CreateTopic,
    DeleteTopic,
    DescribeGroup,
    DescribeTopic,
    GroupPosition,
    ListTopics,
    TopicInfo,
    Trim,
)
from mqplug_rocksmq._places import group_position, logs_of, number_of, offset_of
from mqplug_rocksmq._topics import Retention, Topic

if TYPE_CHECKING:
    from mqplug_rocksmq._connection import RocksMQConnection


def administer(connection: RocksMQConnection, action: Action, timeout: float) -> Any:
    """Carry out one action."""
    store = connection.store
    match action:
        case CreateTopic(topic, partitions, retention, options):
            kept = _retention(retention, options)
            return _info(store.id, connection.owned.topics.create(topic, partitions, kept, timeout))
        case DeleteTopic(topic):
            connection.owned.delete_topic(topic, timeout)
            return True
        case ListTopics():
            return store.topics.names()
        case DescribeTopic(topic):
            return _info(store.id, store.topics.get(topic))
        case DescribeGroup(group, logs):
            return dict(_places(connection, group, logs))
        case Trim(before):
            for log, position in before.items():
                connection.owned.trim(number_of(store.id, log), offset_of(position), timeout)
            return True
        case _:
            raise Unsupported(type(action).__name__)


def _info(store: str, topic: Topic) -> TopicInfo:
    return TopicInfo(topic.name, logs_of(store, topic))


def _places(connection: RocksMQConnection, group: str, logs: tuple[Log, ...]) -> list[tuple[Log, GroupPosition]]:
    found = [(log, connection.store.groups.place(group, number_of(connection.store.id, log))) for log in logs]
    return [(log, group_position(log, place)) for log, place in found if place is not None]


def _retention(seconds: float | None, options: Mapping[str, Any]) -> Retention:
    size = options.get("retention_bytes")
    unknown = set(options) - {"retention_bytes"}
    if unknown:
        raise ConfigError(f"a topic of rocksmq has no option {min(unknown)!r}", fix="There is retention_bytes")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise ConfigError(f"retention_bytes is {size!r}", fix="Give a number of bytes")
    if seconds is None:
        return Retention(size=size)
    if not seconds >= 0:
        raise ValueError(f"retention is a number of seconds of at least 0, not {seconds}")
    return Retention(None if math.isinf(seconds) else int(seconds * 1000), size)
