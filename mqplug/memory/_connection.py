"""A client's connection to a store: positions, watermarks, groups and administration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mqplug._model.errors import ConfigError, GroupNotFound
from mqplug._model.ids import MessageId
from mqplug._model.log import Log
from mqplug._model.position import Bounds, Position, Watermarks
from mqplug.memory._store import Store, release_store
from mqplug.spi import (
    Action,
    AddPartitions,
    AlterTopic,
    Capabilities,
    Connection,
    ConsumerOptions,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeGroupMembers,
    DescribeTopic,
    DescribeTopics,
    DiscardStaged,
    GroupPosition,
    Ingest,
    ListGroups,
    ListTopics,
    Numbers,
    SymbolicStart,
    Trim,
    unsupported,
)


class MemoryConnection(Connection):
    """A client's connection to a store."""

    def __init__(self, store: Store, capabilities: Capabilities) -> None:
        self.store = store
        self.capabilities = capabilities
        self._open = True

    def after(self, message_id: MessageId) -> Position:
        after = self.store.personality.numbering.behind
        return Position(message_id.log, after(message_id.coordinates, message_id.detail))

    def is_possible(self, coordinates: Numbers) -> bool:
        return self.store.personality.numbering.is_possible(coordinates)

    def owns(self, log: Log) -> bool:
        return (log.backend, log.cluster) == ("memory", self.store.name)

    def advance(self, position: Position, count: int) -> Position:
        advance = self.store.personality.numbering.advance
        return Position(position.log, advance(position.coordinates, count))

    def distance(self, start: Position, until: Position) -> int:
        return until.coordinates[0] - start.coordinates[0]

    def health(self, timeout: float) -> None:
        """Do nothing, because memory always answers."""

    def unwrap(self, kind: type[Any]) -> Any | None:
        parts = (self.store, self.store.clock)
        return next((part for part in parts if isinstance(part, kind)), None)

    def close(self, timeout: float) -> None:
        if self._open:
            self._open = False
            release_store(self.store)

    def resolve(self, start: SymbolicStart, logs: Sequence[Log]) -> dict[Log, Position]:
        with self.store.changed:
            return {log: self.store.partition(log).resolve(start) for log in logs}

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position]) -> dict[Log, Watermarks]:
        exact = self.capabilities.count_exact
        with self.store.changed:
            return {log: self.store.partition(log).watermarks(since.get(log), exact=exact) for log in logs}

    def bounds(self, logs: Sequence[Log]) -> dict[Log, Bounds]:
        with self.store.changed:
            return {log: self.store.partition(log).bounds() for log in logs}

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition]) -> None:
        with self.store.changed:
            self.store.check_idle(group)
            self.store.group(group).move(positions)

    def start_group(self, group: str, options: ConsumerOptions) -> None:
        """Store the start of each log where the group has no position yet."""
        known = self.store.positions(group, options.logs)
        if options.must_exist and not known:
            raise GroupNotFound(f"the group {group!r} has no position on these topics", fix="Drop must_exist=True")
        missing = [log for log in options.logs if log not in known]
        wanted = options.start if isinstance(options.start, Mapping) else self.resolve(options.start, missing)
        self.store.store_positions(group, {log: GroupPosition(wanted[log]) for log in missing})

    def administer(self, action: Action) -> Any:
        store = self.store
        with store.changed:
            match action:
                case CreateTopic(topic, partitions, options=options):
                    _refuse_options(options)
                    return store.create(topic, partitions, action.retention, action.retention_bytes)
                case AlterTopic(topic, retention, options, size):
                    _refuse_options(options)
                    return store.alter(topic, retention, size)
                case DeleteTopic(topic):
                    store.delete(topic)
                    return True
                case AddPartitions(topic, partitions):
                    return store.add_partitions(topic, partitions)
                case ListTopics():
                    return store.names()
                case DescribeTopic(topic):
                    return store.describe(topic)
                case DescribeTopics(topics):
                    return [store.describe(topic) for topic in topics]
                case DescribeGroup(group, logs):
                    return store.positions(group, logs)
                case DescribeGroupMembers(group):
                    return store.describe_group(group)
                case ListGroups(topic):
                    return store.groups(topic)
                case DeleteGroup(group):
                    store.delete_group(group)
                    return True
                case Trim(before):
                    for log, position in before.items():
                        store.partition(log).trim(position.coordinates)
                    return True
                case Ingest():
                    done = store.staging.ingest(action)
                    store.changed.notify_all()
                    return done
                case DiscardStaged(staged):
                    store.staging.discard(staged)
                    return True
        raise unsupported(action)


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for any option of a topic, because memory has none."""
    if options:
        raise ConfigError(f"a memory topic has no option {min(options)!r}", backend="memory", fix="Leave options= out")
