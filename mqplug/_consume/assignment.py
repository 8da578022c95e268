"""The assignment of a consumer: the state of each partition that it holds.

Each assignment and each seek begins a new epoch of a partition. Messages fetched in an older epoch are never
delivered, and acks of an older epoch change nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Literal

import attrs

from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.shared_tracker import SharedTracker
from mqplug._model.batch import Batch
from mqplug._model.errors import Error
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.spi._actions import GroupPosition, Settlement

if TYPE_CHECKING:
    from mqplug._model.ids import MessageId

OnChange = Callable[[Sequence[Log]], None]


class HeldPartition:
    """A partition in one epoch: read at its tracker's position, or with a fault until a seek.

    ``waiting`` has the fetched batches that are not delivered yet. The partition is ``paused`` by the user, ``busy``
    while a handler works on one of its batches, and ``silenced`` while the driver pauses it. Nothing is handed out
    before the time ``due``. With ``aborted``, all unacked messages must be delivered again. Messages before ``seen``
    that the driver fetches again were already delivered.
    """

    __slots__ = (
        "aborted", "busy", "due", "fault", "lenient", "log", "paused", "seen", "silenced", "tracker", "waiting",
    )  # fmt: skip

    def __init__(self, log: Log, tracker: Tracker | SharedTracker, *, lenient: bool) -> None:
        self.log = log
        self.tracker = tracker
        self.lenient = lenient
        self.fault: Error | None = None
        self.waiting: deque[Batch] = deque()
        self.paused = self.busy = self.silenced = self.aborted = False
        self.due = 0.0
        self.seen: Position | None = None

    def put_back(self) -> None:
        """Put the rest of the last delivery back in front of the waiting batches."""
        latest = self.tracker.latest
        if latest is not None and latest.live and latest.left:
            self.waiting.appendleft(latest.split_taken())

    def fetch_again(self) -> Position | None:
        """Drop the fetched messages that were not handed out. Return where to continue, or None if there is a fault."""
        if self.fault is not None or not isinstance(self.tracker, Tracker):
            return None
        self.put_back()
        self.waiting.clear()
        self.tracker.returned.take_back_unseen()
        self.seen, self.silenced = self.tracker.end, False
        return self.tracker.first_unacked


class Assignment:
    """The partitions of one consumer. The driver reports assignments and revocations here."""

    def __init__(
        self,
        *,
        grouped: bool,
        shares: bool,
        until: Mapping[Log, Position],
        lenient: bool = False,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
    ) -> None:
        self._grouped = grouped
        self._shares = shares
        self._until = dict(until)
        self._lenient = lenient  # continue with the retained messages if retention overtakes the reader
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._held: dict[Log, HeldPartition] = {}
        self._failed_callbacks: deque[Exception] = deque()
        self.before_state: Callable[[], None] | None = None  # adds acks before a state is taken
        self.committing = Lock()
        self.unstored: dict[Log, bool] = {}
        """The logs that were lost before their acks were stored, and whether that was after the last commit of all."""
        self.changing = False  # while a report of the driver is processed; stays True if Ctrl-C interrupts that

    # reports of the driver

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        """Take over these logs."""
        self.changing = True
        for position in positions.values():
            self._begin(position, lenient=self._lenient)
        self._call_back(self._on_assigned, list(positions))
        self.changing = False

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        """Release these logs. Return the states to store."""
        self.changing = True
        mine = [log for log in logs if log in self._held]
        self._call_back(self._on_revoked, mine)
        with self.committing:
            if self.before_state is not None:
                self.before_state()
            trackers = {log: self._held[log].tracker for log in mine}
            states = {log: each.state() for log, each in trackers.items() if isinstance(each, Tracker) and each.dirty}
            self._drop(mine)
        self.changing = False
        return states

    def lost(self, logs: Sequence[Log]) -> None:
        """Release these logs, which another member may already have."""
        self.changing = True
        mine = [log for log in logs if log in self._held]
        with self.committing:
            self.unstored |= {log: True for log in mine if self._held[log].tracker.dirty}
            self._drop(mine)
        self._call_back(self._on_revoked, mine)
        self.changing = False

    def _call_back(self, callback: OnChange | None, logs: Sequence[Log]) -> None:
        """Call the user's callback. The next receive raises its error, so that this hand-over completes."""
        if callback is None or not logs:
            return
        try:
            callback(logs)
        except Exception as error:  # noqa: BLE001 - the next receive raises it
            self._failed_callbacks.append(error)

    # for the consumer

    def get(self, log: Log) -> HeldPartition | None:
        """Return the current state of a log; None if it is not held."""
        return self._held.get(log)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._held))

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, positions: Mapping[Log, Position], *, lenient: bool) -> None:
        """Begin a new epoch of these logs at these positions. Paused partitions stay paused."""
        for log, position in positions.items():
            before = self._held.get(log)
            held = self._begin(GroupPosition(position), lenient=lenient)
            if before is not None:
                held.paused, held.silenced = before.paused, before.silenced

    def fail(self, log: Log, error: Error, *, moved: bool = False) -> None:
        """Make every receive raise this error until a seek of the log succeeds.

        ``moved``: the group's position may have changed, so earlier acks are no longer stored.
        """
        held = self._held[log]
        held.tracker.drop()
        held.tracker.dirty &= not moved
        held.waiting.clear()
        held.fault = error

    def check(self) -> None:
        """Raise the error of a callback, once, or the fault of a partition."""
        if self._failed_callbacks:
            raise self._failed_callbacks.popleft()
        for held in self._held.values():
            if held.fault is not None:
                raise held.fault.with_traceback(None)

    def rewind(self, held: HeldPartition) -> HeldPartition:
        """Begin a new epoch of a partition that delivers all unacked messages again. The driver is unaffected."""
        with self.committing:
            before = held.tracker
            if not isinstance(before, Tracker):
                return held
            before.drop()
            state, unacked, due = before.state(), before.unacked(), before.returned.last_due()
            again = self._begin(state, lenient=held.lenient)  # forgets the deliveries of the old epoch
            again.tracker.dirty = before.dirty
            again.waiting.extend([*unacked, *held.waiting])
            again.paused, again.silenced, again.fault = held.paused, held.silenced, held.fault
            again.due = due
            return again

    def accept(self, batch: Batch) -> HeldPartition | None:
        """Queue a fetched batch, without messages acked before or past ``until``. Return None if it is not held."""
        log = batch.log
        held = self._held.get(log)
        if held is None or held.fault is not None:
            return None
        if held.seen is not None:
            if batch.next_position <= held.seen:
                return None
            batch = batch[bisect_left(batch.coordinates, held.seen.coordinates) :]
            held.seen = None
        if len(batch):
            held.lenient = self._lenient
        end = self._until.get(log)
        if end is not None and batch.next_position.coordinates > end.coordinates:
            batch = batch[: bisect_left(batch.coordinates, end.coordinates)].ending_at(end)
        held.waiting.append(held.tracker.without_acked(batch))
        return held

    def is_current(self, held: HeldPartition) -> bool:
        """Return whether its waiting batches may still be delivered."""
        return self._held.get(held.log) is held

    @property
    def all(self) -> list[HeldPartition]:
        """The current state of each partition."""
        return list(self._held.values())

    @property
    def finished(self) -> bool:
        """Whether every held partition was handed out up to ``until``."""
        if not self._until:
            return False
        for log, held in self._held.items():
            end = self._until.get(log)
            if end is None or held.tracker.position.coordinates < end.coordinates:
                return False
        return bool(self._held)

    def unread(self) -> str:
        """Describe how far each unfinished partition was read."""
        ends = ((held, self._until.get(held.log)) for held in self._held.values())
        return "; ".join(
            f"{held.tracker.position!r} is before {end!r}" for held, end in ends if end and held.tracker.position < end
        )

    def take_changes(self) -> list[tuple[HeldPartition, GroupPosition | Settlement]]:
        """Return the changes of the logs with new acks. ``committing`` is held."""
        if self.before_state is not None:
            self.before_state()
        return [(held, held.tracker.take_change()) for held in list(self._held.values()) if held.tracker.dirty]

    @property
    def has_returned(self) -> bool:
        """Whether there are nacks of shared logs to store."""
        for held in list(self._held.values()) if self._shares else ():
            if isinstance(held.tracker, SharedTracker) and held.tracker.has_returned:
                return True
        return False

    def take_returned(self) -> list[tuple[HeldPartition, Settlement]]:
        """Return the nacks of shared logs. ``committing`` is held."""
        trackers = ((held, held.tracker) for held in self.all)
        return [
            (held, tracker.take_returned())
            for held, tracker in trackers
            if isinstance(tracker, SharedTracker) and tracker.has_returned
        ]

    def drop_all(self) -> None:
        """Release all partitions."""
        self._drop(list(self._held))

    def _begin(self, start: GroupPosition, *, lenient: bool) -> HeldPartition:
        log = start.position.log
        self._drop([log] if log in self._held else [])
        tracker = SharedTracker(self, start) if self._shares else Tracker(self, start, keeps=self._grouped)
        held = self._held[log] = HeldPartition(log, tracker, lenient=lenient or self._lenient)
        return held

    def _drop(self, logs: Sequence[Log]) -> None:
        for log in logs:
            tracker = self._held.pop(log).tracker
            tracker.drop()
            tracker.release()


Waits = Literal["paused", "returned", "unacked", "fault"]


@attrs.frozen(kw_only=True)
class PartitionState:
    """The state of one partition of a consumer.

    ``waits_for`` is the reason why nothing is handed out: it is ``paused``; a message was nacked and comes first
    (``returned``); too many are ``unacked``, of which ``blocked_by`` is the first; or there is a ``fault``.
    ``position`` is None in the shared modes.
    """

    log: Log
    position: Position | None
    unacked: int
    waits_for: Waits | None
    blocked_by: MessageId | None
    fault: Error | None


@attrs.frozen(kw_only=True)
class ConsumerStatistics:
    """Counts of a consumer since it was opened."""

    received: int
    """Messages handed out, including repeated deliveries."""
    returned: int
    """Nacked messages."""
    dead_lettered: int
    """Messages sent to the dead-letter topic."""
    late_acks: int
    """Acks and nacks without effect: repeated, after a seek, or after another member got the message."""
    commits: int
    """Commits of acks."""
    polls: int
    """Polls of the driver."""
    gaps: int
    """Gaps: retention had removed the next messages, and reading continued with the first retained one."""


def partition_state(held: HeldPartition) -> PartitionState:
    """Return the state of one partition. The caller holds ``committing``."""
    tracker = held.tracker
    waits_for = _waits_for(held)
    return PartitionState(
        log=held.log,
        position=tracker.position if isinstance(tracker, Tracker) else None,
        unacked=tracker.unsettled,
        waits_for=waits_for,
        blocked_by=tracker.oldest if waits_for in {"returned", "unacked"} else None,
        fault=held.fault,
    )


def _waits_for(held: HeldPartition) -> Waits | None:
    if held.fault is not None:
        return "fault"
    if held.paused:
        return "paused"
    if isinstance(held.tracker, Tracker) and held.tracker.returned:
        return "returned"
    return "unacked" if held.tracker.awaited else None
