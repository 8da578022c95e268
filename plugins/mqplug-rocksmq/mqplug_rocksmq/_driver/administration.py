"""Topics and groups: carries out mqplug's actions on a store."""

from __future__ import annotations

import math
from typing import Any

from mqplug import Bounds, GroupNotFound, Log, MessageId
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    DiscardStaged,
    GroupDescription,
    GroupInfo,
    GroupPosition,
    Ingest,
    Ingested,
    ListGroups,
    ListTopics,
    TopicInfo,
    Trim,
    unsupported,
)
from mqplug_rocksmq._driver.group_members import add_partitions_to_members, member_counts, members_of, roster_of
from mqplug_rocksmq._driver.translation import group_position, log_number, offset_of, partition_log, topic_logs
from mqplug_rocksmq._store.ingest import IngestOutcome
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.staging import files_of
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.topics import AddChanges, Topic, TopicRetention, no_changes


def administer(store: Store, action: Action, timeout: float, request: OnceRequest | None = None) -> Any:
    """Carry out one action. One with a *request* is not repeated if it was already done."""
    also = request.note if request else no_changes
    if store.deduplication.has_done(request):
        return _done(store, action)
    match action:
        case CreateTopic(topic, partitions, retention, _, size):
            kept = TopicRetention(**_limits(retention, size))
            return _info(store.id, store.topics.create(topic, partitions, kept, timeout, also))
        case AlterTopic(topic, retention, _, size):
            return _info(store.id, store.retain(topic, _limits(retention, size), timeout, also))
        case AddPartitions(topic, partitions):
            return _add_partitions(store, topic, partitions, timeout, also)
        case DeleteTopic(topic):
            store.delete_topic(topic, timeout, also)
            return True
        case ListTopics():
            return store.topics.names()
        case DescribeTopic(topic):
            return _info(store.id, store.topics.get(topic))
        case DescribeTopics(topics):
            return [_info(store.id, store.topics.get(topic)) for topic in topics]
        case DescribeGroup(group, logs):
            return dict(_places(store, group, logs))
        case DescribeGroupMembers(group):
            return _description(store, group)
        case ListGroups(topic):
            return _groups(store, topic)
        case DeleteGroup(group):
            _delete_group(store, group, timeout, also)
            return True
        case Trim(before):
            for log, position in before.items():
                store.trim(log_number(store.id, log), offset_of(position), timeout)
            return True
        case Ingest(staged, writer, number):
            return _ingested(store, store.ingestion.ingest(writer, number, files_of(store.id, staged), timeout))
        case DiscardStaged(staged):
            store.ingestion.discard(files_of(store.id, staged), timeout)
            return True
        case _:
            raise unsupported(action)


def _done(store: Store, action: Action) -> Any:
    """Return the answer to an action that was done before, but whose answer was lost."""
    if isinstance(action, CreateTopic | AlterTopic | AddPartitions):
        return _info(store.id, store.topics.get(action.topic))
    return True


def _info(store: str, topic: Topic) -> TopicInfo:
    kept = topic.retention
    seconds = math.inf if kept.milliseconds is None else kept.milliseconds / 1000
    return TopicInfo(topic.name, topic_logs(store, topic), seconds, kept.size)


def _add_partitions(store: Store, topic: str, partitions: int, timeout: float, also: AddChanges) -> TopicInfo:
    info = _info(store.id, store.topics.grow(topic, partitions, timeout, also))
    add_partitions_to_members(store, info.logs[0], info.logs)
    return info


def _groups(store: Store, topic: str | None) -> list[GroupInfo]:
    """Return the groups of a topic, or all groups."""
    logs = [None] if topic is None else store.topics.get(topic).logs
    names = sorted({name for log in logs for name in store.groups.names(log)})
    present = member_counts(store)
    return [GroupInfo(name, present.get(name, 0)) for name in names]


def _description(store: Store, group: str) -> GroupDescription:
    """Return a group's topics and members."""
    roster = roster_of(store, group)
    numbers = [*store.groups.logs(group), *(log_number(store.id, log) for log in roster.wanted())]
    if not numbers:
        raise GroupNotFound(f"the group {group!r} has no position in this store")
    topics = {held.topic for held in map(store.topics.find, numbers) if held is not None}
    return GroupDescription(group, tuple(sorted(topics)), roster.members())


def _delete_group(store: Store, group: str, timeout: float, also: AddChanges) -> None:
    with members_of(store, group).absent(timeout):
        logs = tuple(store.groups.logs(group))
        if not logs:
            raise GroupNotFound(f"the group {group!r} has no position in this store")
        store.groups.delete(group, logs, timeout, [also])


def _places(store: Store, group: str, logs: tuple[Log, ...]) -> list[tuple[Log, GroupPosition]]:
    found = [(log, store.groups.position(group, log_number(store.id, log))) for log in logs]
    return [(log, group_position(log, place)) for log, place in found if place is not None]


def _ingested(store: Store, taken: IngestOutcome) -> Ingested:
    placed = {}
    for number, (first, end) in taken.placed.items():
        if held := store.topics.find(number):
            log = partition_log(store.id, store.topics.get(held.topic), held.partition)
            placed[log] = Bounds(MessageId(log, (first,)), MessageId(log, (end - 1,)))
    return Ingested(taken.messages, placed, taken.repeated)


def _limits(seconds: float | None, size: int | None) -> dict[str, int | None]:
    """Return the given limits as a store keeps them: an age in milliseconds, or None for no limit."""
    limits: dict[str, int | None] = {}
    if size is not None:
        if size < 0:
            raise ValueError(f"retention_bytes must be at least 0, not {size}")
        limits["size"] = size
    if seconds is not None:
        if not seconds >= 0:
            raise ValueError(f"retention must be at least 0 seconds, not {seconds}")
        limits["milliseconds"] = None if math.isinf(seconds) else int(seconds * 1000)
    return limits
