"""A client's connection to a store that this process owns: every operation, carried out on the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mqplug import Bounds, Error, GroupNotFound, Log, MessageId, NotAssigned, Position, Watermarks
from mqplug.spi import (
    Action,
    AtTime,
    Capabilities,
    ConsumerOptions,
    Earliest,
    GroupPosition,
    Last,
    Latest,
    Listener,
    Mode,
    ProducerDriver,
    Settlement,
    SymbolicStart,
    TopicInfo,
    TransactionMark,
    TransactionOptions,
)
from mqplug_rocksmq._care.counting import statistics
from mqplug_rocksmq._driver.administration import administer
from mqplug_rocksmq._driver.consumer import NEW_MEMBER, GroupConsumer, JoinContext, LogConsumer
from mqplug_rocksmq._driver.group_members import SharedMember, members_of
from mqplug_rocksmq._driver.producers import StoreSink, SyncedProducer, UnsyncedProducer
from mqplug_rocksmq._driver.stage import RocksMQStage
from mqplug_rocksmq._driver.transactional_producer import (
    PlacedParts,
    StepCommit,
    TransactionalProducer,
    commit_in_store,
)
from mqplug_rocksmq._driver.translation import OffsetArithmetic, log_number, offset_of, position_at, stored_position
from mqplug_rocksmq._engine.log_state import Extent
from mqplug_rocksmq._format.hand_out_notes import notes_key
from mqplug_rocksmq._settings import RocksMQSettings
from mqplug_rocksmq._store.repeated_requests import OnceRequest
from mqplug_rocksmq._store.statistics import RocksMQStatistics
from mqplug_rocksmq._store.store import Store
from mqplug_rocksmq._store.transactions import StepId


class StoreConnection(OffsetArithmetic):
    """A connection to an open store.

    ``_processes.requests`` lists the operations that other processes may request. Each takes its timeout last.
    """

    def __init__(
        self,
        store: Store,
        settings: RocksMQSettings,
        capabilities: Capabilities,
        close: Callable[[Store, float], None],
    ) -> None:
        self.store = store
        self.settings = settings
        self.capabilities = capabilities
        self._close = close

    @property
    def store_id(self) -> str:
        return self.store.id

    def health(self, timeout: float) -> None:
        """Raise an error unless the store can be used."""
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
        """Reserve a segment number for a file to be staged."""
        return self.store.ingestion.reserve(timeout)

    def open_consumer(
        self, options: ConsumerOptions, listener: Listener, timeout: float, context: JoinContext = NEW_MEMBER
    ) -> LogConsumer:
        """Open a consumer. Store the group's start in logs where it has no position yet."""
        if options.group is None:
            return LogConsumer(self.store, self._start_positions(options, options.logs), context.elsewhere)
        present = members_of(self.store, options.group)
        with present.joining(options.mode, timeout):
            self._start_group(options.group, options, timeout)
            if options.shares:
                return SharedMember(self.store, present, options, listener, context)
            return GroupConsumer(self.store, options.group, options, present.roster, listener, context)

    def _start_group(self, group: str, options: ConsumerOptions, timeout: float) -> None:
        numbers = {log: log_number(self.store.id, log) for log in options.logs}
        known = {log: self.store.groups.position(group, number) for log, number in numbers.items()}
        missing = [log for log, place in known.items() if place is None]
        if options.must_exist and len(missing) == len(numbers):
            raise GroupNotFound(f"the group {group!r} has no position in these logs", fix="Drop must_exist=True")
        if missing:
            wanted = self._start_positions(options, missing)
            starts = {numbers[log]: stored_position(GroupPosition(wanted[log])) for log in missing}
            self.store.groups.start(group, starts, timeout)

    def _start_positions(self, options: ConsumerOptions, logs: Sequence[Log]) -> Mapping[Log, Position]:
        return options.start if isinstance(options.start, Mapping) else self.resolve(options.start, logs, 0)

    def move_group(self, group: str, positions: Mapping[Log, GroupPosition], timeout: float) -> None:
        """Move a group that has no members."""
        places = self._stored(positions)
        with members_of(self.store, group).absent(timeout):
            self.store.groups.store(
                group, places, timeout, [self.store.journal.forget(notes_key(number, group)) for number in places]
            )

    def settle_late(self, group: str, mode: Mode, settled: Mapping[Log, Settlement], timeout: float) -> None:
        """Settle messages that a member got from a previous owner process. A repeated call is harmless."""
        present = members_of(self.store, group)
        with present.still(timeout), present.changing:
            if len(present.roster) and present.roster.mode != mode:
                raise NotAssigned(f"the group {group!r} now has members in mode {present.roster.mode!r}, not {mode!r}")
            present.sharing(self.store, mode).settle(None, settled, timeout)
            present.left()

    def open_transactions(self, options: TransactionOptions, timeout: float) -> TransactionalProducer:
        """Take over a transaction name."""
        return TransactionalProducer(self, options.name, timeout)

    def hold_transactions(self, name: str, holder: str, timeout: float) -> None:
        """Make *holder* the holder of a transaction name, and fence its former holder."""
        self.store.transactions.hold(name, holder, timeout)

    def begin_transaction(
        self, name: str, holder: str, unsettled: int | None, mark: TransactionMark | None, timeout: float
    ) -> TransactionMark | None:
        """Return the mark if it was committed before. Make sure that *unsettled* is committed, or never will be."""
        if unsettled is not None:
            self.store.transactions.give_up(StepId(name, holder, unsettled), timeout)
        return self.store.transactions.begin(name, holder, mark)

    def commit_transaction(self, commit: StepCommit, timeout: float) -> PlacedParts | Error:
        """Commit a transaction, all or nothing. Return the error that refused it."""
        return commit_in_store(self.store, commit, timeout)

    def restore_group(
        self,
        group: str,
        positions: Mapping[Log, GroupPosition],
        since: Mapping[Log, Sequence[GroupPosition]],
        timeout: float,
    ) -> None:
        """Store positions that a member could not store with a previous owner process.

        A position is stored only if no member holds the log now, and the group's position is still one of those in
        ``since``, or already the new one.
        """
        present = members_of(self.store, group)
        with present.still(timeout):
            places = self._stored(
                {
                    log: position
                    for log, position in positions.items()
                    if not present.roster.holds(log) and self._is_at(group, log, [*since.get(log, ()), position])
                }
            )
            if places:
                self.store.groups.store(group, places, timeout)
        for log in positions:
            if log_number(self.store.id, log) not in places:
                raise NotAssigned(f"another member of the group {group!r} has got {log!r} since", topic=log.topic)

    def _stored(self, positions: Mapping[Log, GroupPosition]) -> dict[int, Any]:
        return {log_number(self.store.id, log): stored_position(position) for log, position in positions.items()}

    def _is_at(self, group: str, log: Log, known: Sequence[GroupPosition]) -> bool:
        """Return whether a group's position in a log is one of these."""
        place = self.store.groups.position(group, log_number(self.store.id, log))
        return place in [stored_position(each) for each in known]

    def resolve(self, start: SymbolicStart, logs: Sequence[Log], timeout: float) -> dict[Log, Position]:
        """Turn a start into positions."""
        numbers = [log_number(self.store.id, log) for log in logs]
        extents = self.store.watermarks(numbers)
        return {
            log: position_at(log, self._start_offset(start, number, extent))
            for log, number, extent in zip(logs, numbers, extents, strict=True)
        }

    def _start_offset(self, start: SymbolicStart, number: int, extent: Extent) -> int:
        match start:
            case Earliest():
                return extent.low
            case Latest():
                return extent.high
            case AtTime(milliseconds):
                return self.store.first_at(number, milliseconds)
            case Last(count):
                return extent.high if not count else self.store.nth_last(number, count)

    def watermarks(self, logs: Sequence[Log], since: Mapping[Log, Position], timeout: float) -> dict[Log, Watermarks]:
        """Return the watermarks of each log. They count from the position in ``since``, if it has one."""
        extents = self.store.watermarks([log_number(self.store.id, log) for log in logs])
        return {log: _watermarks(log, extent, since.get(log)) for log, extent in zip(logs, extents, strict=True)}

    def bounds(self, logs: Sequence[Log], timeout: float) -> dict[Log, Bounds]:
        """Return the first and the last id of each log."""
        return {log: _bounds(log, self.store.bounds(log_number(self.store.id, log))) for log in logs}

    def administer(self, action: Action, timeout: float, request: OnceRequest | None = None) -> Any:
        """Carry out an action. One with a *request* is not repeated if it was already done."""
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
