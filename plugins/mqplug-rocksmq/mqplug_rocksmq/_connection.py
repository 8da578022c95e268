"""A client's hold on a store: its own, or one that another process owns and lets it read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from mqplug import (
    AccessDenied,
    AlreadyOpen,
    Bounds,
    ConnectError,
    Error,
    GroupNotFound,
    Log,
    MessageId,
    Position,
    Watermarks,
)
from mqplug.spi import Action, Capabilities, ConsumerOptions, GroupPosition, Listener, SymbolicStart
from mqplug_rocksmq._administration import administer
from mqplug_rocksmq._consumer import GroupConsumer, RocksMQConsumer
from mqplug_rocksmq._log import Extent
from mqplug_rocksmq._members import members
from mqplug_rocksmq._ownership import owner_of
from mqplug_rocksmq._places import number_of, offset_of, place_of, position_at
from mqplug_rocksmq._producer import RocksMQProducer
from mqplug_rocksmq._remote import RemoteStore
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._shared import PATIENCE, close_store, open_or_connect
from mqplug_rocksmq._starts import resolve
from mqplug_rocksmq._store import Store, StoreSettings


def connect(settings: RocksMQSettings, capabilities: Capabilities, timeout: float) -> RocksMQConnection:
    """Open the store, or reach the process that has it open."""
    wanted = StoreSettings(settings.sync, settings.sync_interval, settings.retention_interval)
    try:
        store = open_or_connect(settings.directory, wanted, min(timeout, PATIENCE))
    except Error:
        raise
    except OSError as error:
        kind = AccessDenied if isinstance(error, PermissionError) else ConnectError
        reason = f"the store {settings.path} cannot be opened: {error.strerror}"
        raise kind(reason, fix="Check the path, its permissions and its disk") from error
    capabilities = attrs.evolve(capabilities, message_max_bytes=settings.message_max_bytes)
    return RocksMQConnection(store, capabilities if isinstance(store, Store) else _reading_only(capabilities))


def _reading_only(capabilities: Capabilities) -> Capabilities:
    """Return what is left where another process owns the store."""
    owners = (
        "delete_topic", "add_partitions", "durable_groups", "ordered", "exclusive", "trim", "retention",
        "individual_ack", "cumulative_ack", "commit", "assignment_events",
    )  # fmt: skip
    refused: dict[str, Any] = dict.fromkeys(owners, False)
    return attrs.evolve(capabilities, **refused)


class RocksMQConnection:
    """An open store."""

    def __init__(self, store: Store | RemoteStore, capabilities: Capabilities) -> None:
        self.store = store
        self.capabilities = capabilities

    @property
    def owned(self) -> Store:
        """The store, if this process owns it; ``AlreadyOpen`` if it may only read."""
        if isinstance(self.store, Store):
            return self.store
        raise only_owner(self.store.path)

    def after(self, message_id: MessageId) -> Position:
        return position_at(message_id.log, message_id.coordinates[0] + 1)

    def health(self, timeout: float) -> None:
        self.store.check()

    def unwrap(self, kind: type[Any]) -> Any | None:
        return self.store if isinstance(self.store, kind) else None

    def close(self, timeout: float) -> None:
        if isinstance(self.store, Store):
            close_store(self.store, timeout)
        else:
            self.store.close(timeout)

    def open_producer(self) -> RocksMQProducer:
        """Open a producer; only the owner of the store can."""
        return RocksMQProducer(self.owned)

    def open_consumer(self, options: ConsumerOptions, listener: Listener, timeout: float) -> RocksMQConsumer:
        """Open a consumer, and store where its group starts."""
        if options.group is None:
            positions = (
                options.start if isinstance(options.start, Mapping) else self.resolve(options.start, options.logs)
            )
            return RocksMQConsumer(self.store, positions)
        present = members(self.owned, options.group)
        with present.joining(options.mode, timeout):
            self._start_group(options.group, options, timeout)
            return GroupConsumer(self.owned, options.group, options, present.roster, listener)

    def _start_group(self, group: str, options: ConsumerOptions, timeout: float) -> None:
        numbers = {log: number_of(self.store.id, log) for log in options.logs}
        known = {log: self.owned.groups.place(group, number) for log, number in numbers.items()}
        missing = [log for log, place in known.items() if place is None]
        if options.must_exist and len(missing) == len(numbers):
            raise GroupNotFound(f"the group {group!r} has no position here", fix="Drop must_exist=True")
        if not missing:
            return
        wanted = options.start if isinstance(options.start, Mapping) else self.resolve(options.start, missing)
        starts = {numbers[log]: place_of(GroupPosition(wanted[log])) for log in missing}
        self.owned.groups.start(group, starts, timeout)

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Move a group that has no members."""
        places = {number_of(self.store.id, log): place_of(stands) for log, stands in positions.items()}
        with members(self.owned, group).absent(timeout):
            self.owned.groups.store(group, places, timeout)

    def resolve(self, start: SymbolicStart, logs: Sequence[Log]) -> dict[Log, Position]:
        """Turn a start into positions."""
        offsets = resolve(self.store, start, [number_of(self.store.id, log) for log in logs])
        return {log: position_at(log, offset) for log, offset in zip(logs, offsets, strict=True)}

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position]) -> dict[Log, Watermarks]:
        """Return how far each log reaches."""
        extents = self.store.watermarks([number_of(self.store.id, log) for log in logs])
        return {log: _watermarks(log, extent, since.get(log)) for log, extent in zip(logs, extents, strict=True)}

    def bounds(self, logs: Sequence[Log]) -> dict[Log, Bounds]:
        """Return the first and the last id of each log."""
        return {log: _bounds(log, self.store.bounds(number_of(self.store.id, log))) for log in logs}

    def administer(self, action: Action, timeout: float) -> Any:
        """Carry out an action."""
        return administer(self, action, timeout)


def only_owner(path: Path) -> AlreadyOpen:
    """Return the error of a process that may read a store, but not change it."""
    owner = owner_of(path)
    who = f"process {owner.pid}" if owner else "another process"
    return AlreadyOpen(f"{who} owns the store {path}; this one can only read it", fix="Do this in the owner")


def _watermarks(log: Log, extent: Extent, since: Position | None) -> Watermarks:
    begin = extent.low if since is None else max(extent.low, offset_of(since))
    low, high = position_at(log, extent.low), position_at(log, extent.high)
    return Watermarks(low, high, max(0, extent.high - begin), exact=extent.dense)


def _bounds(log: Log, found: tuple[int, int] | None) -> Bounds:
    if found is None:
        return Bounds(None, None)
    first, last = found
    return Bounds(MessageId(log, (first,)), MessageId(log, (last,)))
