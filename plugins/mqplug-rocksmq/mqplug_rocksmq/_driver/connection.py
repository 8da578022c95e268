"""A client's hold on a store that this process owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mqplug import Bounds, GroupNotFound, Log, MessageId, NotAssigned, Position, Watermarks
from mqplug.spi import (
    Action,
    Capabilities,
    ConsumerOptions,
    GroupPosition,
    Listener,
    Mode,
    Numbers,
    ProducerDriver,
    Settlement,
    SymbolicStart,
    TopicInfo,
)
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._driver.administration import administer
from mqplug_rocksmq._driver.consumer import GroupConsumer, LogConsumer
from mqplug_rocksmq._driver.group_members import members_of
from mqplug_rocksmq._driver.shared_member import NEW_MEMBER, JoinContext, SharedMember
from mqplug_rocksmq._driver.sinks import StoreSink
from mqplug_rocksmq._driver.stage import RocksMQStage
from mqplug_rocksmq._driver.starts import resolve
from mqplug_rocksmq._driver.synced_producer import SyncedProducer
from mqplug_rocksmq._driver.topic_defaults import TopicDefaults
from mqplug_rocksmq._driver.translation import is_offset, log_number, offset_of, position_at, stored_position
from mqplug_rocksmq._driver.unsynced_producer import UnsyncedProducer
from mqplug_rocksmq._engine.log_state import Extent
from mqplug_rocksmq._store.deduplication import Request
from mqplug_rocksmq._store.hand_outs import forget
from mqplug_rocksmq._store.statistics import RocksMQStatistics
from mqplug_rocksmq._store.store import Store


class StoreConnection:
    """An open store."""

    def __init__(self, store: Store, capabilities: Capabilities, close: Callable[[Store, float], None]) -> None:
        self.store = store
        self.capabilities = capabilities
        self.defaults = TopicDefaults()
        self._close = close

    def after(self, message_id: MessageId) -> Position:
        return position_at(message_id.log, message_id.coordinates[0] + 1)

    def is_possible(self, coordinates: Numbers) -> bool:
        return is_offset(coordinates)

    def health(self, timeout: float) -> None:
        self.store.check()

    def unwrap(self, kind: type[Any]) -> Any | None:
        if kind is RocksMQStatistics:
            return statistics(self.store)
        return self.store if isinstance(self.store, kind) else None

    def close(self, timeout: float) -> None:
        self._close(self.store, timeout)

    def open_producer(self, timeout: float) -> ProducerDriver:
        """Open a producer."""
        if self.store.settings.sync == "always":
            return SyncedProducer(StoreSink(self.store))
        return UnsyncedProducer(self.store)

    def open_stage(self, topic: TopicInfo, timeout: float) -> RocksMQStage:
        """Open a stage."""
        return RocksMQStage(self.store.id, self.store.path, topic, self.reserve_segment)

    def reserve_segment(self, timeout: float) -> int:
        """Give out the number of a segment, for a file that is to be staged."""
        return self.store.ingestion.reserve(timeout)

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, bearing: JoinContext = NEW_MEMBER
    ) -> LogConsumer:
        """Open a consumer, and store where its group starts."""
        if options.group is None:
            positions = (
                options.start if isinstance(options.start, Mapping) else self.resolve(options.start, options.logs)
            )
            return LogConsumer(self.store, positions)
        present = members_of(self.store, options.group)
        with present.joining(options.mode, timeout):
            self._start_group(options.group, options, timeout)
            if options.shares:
                return SharedMember(self.store, present, options, listener, bearing)
            return GroupConsumer(self.store, options.group, options, present.roster, listener)

    def _start_group(self, group: str, options: ConsumerOptions, timeout: float) -> None:
        numbers = {log: log_number(self.store.id, log) for log in options.logs}
        known = {log: self.store.groups.place(group, number) for log, number in numbers.items()}
        missing = [log for log, place in known.items() if place is None]
        if options.must_exist and len(missing) == len(numbers):
            raise GroupNotFound(f"the group {group!r} has no position here", fix="Drop must_exist=True")
        if not missing:
            return
        wanted = options.start if isinstance(options.start, Mapping) else self.resolve(options.start, missing)
        starts = {numbers[log]: stored_position(GroupPosition(wanted[log])) for log in missing}
        self.store.groups.start(group, starts, timeout)

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Move a group that has no members."""
        places = {log_number(self.store.id, log): stored_position(stands) for log, stands in positions.items()}
        with members_of(self.store, group).absent(timeout):
            self.store.groups.store(group, places, timeout, [forget(number, group) for number in places])

    def settle_late(self, group: str, mode: Mode, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Store what became of messages that a member had of the owner before."""
        present = members_of(self.store, group)
        with present.still(timeout), present.changing:
            if len(present.roster) and present.roster.mode != mode:
                raise NotAssigned(f"the group {group!r} has members as {present.roster.mode!r} by now")
            present.sharing(self.store, mode).settle_late(settled, timeout)
            present.left()

    def restore_group(
        self,
        group: str,
        positions: Mapping[Log, GroupPosition],
        since: Mapping[Log, Sequence[GroupPosition]],
        timeout: float,
    ) -> None:
        """Store what a member of the owner before could not store any more, where no other member came meanwhile.

        ``since`` says where the group stands if nobody but this member has moved it.
        """
        present = members_of(self.store, group)
        with present.still(timeout):
            places = {
                log_number(self.store.id, log): stored_position(stands)
                for log, stands in positions.items()
                if not present.roster.holds(log) and self._stands_at(group, log, [*since.get(log, ()), stands])
            }
            if places:
                self.store.groups.store(group, places, timeout)
        for log in positions:
            if log_number(self.store.id, log) not in places:
                raise NotAssigned(f"another member has, or had, {log!r} meanwhile", topic=log.topic)

    def _stands_at(self, group: str, log: Log, known: Sequence[GroupPosition]) -> bool:
        """Whether a group stands at one of these places."""
        return self.store.groups.place(group, log_number(self.store.id, log)) in [
            stored_position(each) for each in known
        ]

    def resolve(self, start: SymbolicStart, logs: Sequence[Log], timeout: float = 0) -> dict[Log, Position]:
        """Turn a start into positions."""
        offsets = resolve(self.store, start, [log_number(self.store.id, log) for log in logs])
        return {log: position_at(log, offset) for log, offset in zip(logs, offsets, strict=True)}

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float) -> dict[Log, Watermarks]:
        """Return how far each log reaches."""
        extents = self.store.watermarks([log_number(self.store.id, log) for log in logs])
        return {log: _watermarks(log, extent, since.get(log)) for log, extent in zip(logs, extents, strict=True)}

    def bounds(self, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
        """Return the first and the last id of each log."""
        return {log: _bounds(log, self.store.bounds(log_number(self.store.id, log))) for log in logs}

    def administer(self, action: Action, timeout: float, request: Request | None = None) -> Any:
        """Carry out an action; what *request* names is not done a second time."""
        return administer(self.store, action, timeout, request)


def _watermarks(log: Log, extent: Extent, since: Position | None) -> Watermarks:
    begin = extent.low if since is None else max(extent.low, offset_of(since))
    low, high = position_at(log, extent.low), position_at(log, extent.high)
    return Watermarks(low, high, max(0, extent.high - begin), exact=extent.dense)


def _bounds(log: Log, found: tuple[int, int] | None) -> Bounds:
    if found is None:
        return Bounds(None, None)
    first, last = found
    return Bounds(MessageId(log, (first,)), MessageId(log, (last,)))
