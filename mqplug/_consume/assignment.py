"""What a consumer holds: the state of each partition, and how it comes and goes.

Each assignment and each seek begins a new epoch of a partition. What was fetched in an older one is never
delivered; an ack of it changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

from mqplug._consume.ack_tracker import Tracker
from mqplug._consume.shared_tracker import SharedTracker
from mqplug._model.batch import Batch
from mqplug._model.errors import Error
from mqplug._model.log import Log
from mqplug._model.position import Position
from mqplug.spi._actions import GroupPosition, Settlement

OnChange = Callable[[Sequence[Log]], None]


class HeldPartition:
    """A partition in one epoch: reading at its tracker's position, or at fault until a seek.

    ``waiting`` is what was fetched and not delivered yet. ``paused`` says that the user paused it, ``busy`` that
    somebody works on a batch of it, ``silenced`` that the driver was told to pause it.
    """

    __slots__ = ("busy", "fault", "lenient", "log", "paused", "silenced", "tracker", "waiting")

    def __init__(self, log: Log, tracker: Tracker | SharedTracker, *, lenient: bool) -> None:
        self.log = log
        self.tracker = tracker
        self.lenient = lenient
        self.fault: Error | None = None
        self.waiting: deque[Batch] = deque()
        self.paused = self.busy = self.silenced = False

    def put_back(self) -> None:
        """What was delivered last and was not handed out waits again."""
        latest = self.tracker.latest
        if latest is not None and latest.live and latest.left:
            self.waiting.appendleft(latest.split())


class Assignment:
    """The partitions of one consumer. It is what the driver tells of assignments."""

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
        self._lenient = lenient  # go on with what is left wherever retention is quicker
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._held: dict[Log, HeldPartition] = {}
        self._failed_callbacks: deque[Exception] = deque()
        self.before_state: Callable[[], None] | None = None  # what acks are to be added before a state is taken
        self.committing = Lock()

    # what the driver tells

    def assigned(self, positions: Mapping[Log, GroupPosition]) -> None:
        """These logs are held from now on."""
        for position in positions.values():
            self._begin(position, lenient=self._lenient)
        self._tell(self._on_assigned, list(positions))

    def revoked(self, logs: Sequence[Log]) -> Mapping[Log, GroupPosition]:
        """These logs go; where they stand is returned, to be stored."""
        mine = [log for log in logs if log in self._held]
        self._tell(self._on_revoked, mine)
        with self.committing:
            self._prepare()
            trackers = {log: self._held[log].tracker for log in mine}
            states = {log: each.state() for log, each in trackers.items() if isinstance(each, Tracker) and each.dirty}
            self._drop(mine)
        return states

    def lost(self, logs: Sequence[Log]) -> None:
        """These logs are gone."""
        mine = [log for log in logs if log in self._held]
        with self.committing:
            self._drop(mine)
        self._tell(self._on_revoked, mine)

    def _tell(self, callback: OnChange | None, logs: Sequence[Log]) -> None:
        """Call the user's callback. What it raises comes out of the next receive: a hand-over is not left half done."""
        if callback is None or not logs:
            return
        try:
            callback(logs)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever receives
            self._failed_callbacks.append(error)

    # what the consumer asks and does

    def get(self, log: Log) -> HeldPartition | None:
        """The present state of a log, if it is held."""
        return self._held.get(log)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._held))

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, positions: Mapping[Log, Position], *, lenient: bool) -> None:
        """Begin a new epoch of these logs at these positions. What was paused stays so."""
        for log, position in positions.items():
            before = self._held.get(log)
            held = self._begin(GroupPosition(position), lenient=lenient)
            if before is not None:
                held.paused, held.silenced = before.paused, before.silenced

    def fail(self, log: Log, error: Error, *, moved: bool = False) -> None:
        """Every receive raises this until a seek of the log succeeds.

        ``moved``: the group may stand elsewhere by now; what was acked before is not stored any more.
        """
        held = self._held[log]
        held.tracker.drop()
        held.tracker.dirty &= not moved
        held.waiting.clear()
        held.fault = error

    def check(self) -> None:
        """Raise what a callback raised, once, and what is wrong with any partition."""
        if self._failed_callbacks:
            raise self._failed_callbacks.popleft()
        for held in self._held.values():
            if held.fault is not None:
                raise held.fault.with_traceback(None)

    def accept(self, batch: Batch) -> HeldPartition | None:
        """Let a fetched batch wait, less what was acked before and what lies behind ``until``; None if not held."""
        log = batch.log
        held = self._held.get(log)
        if held is None or held.fault is not None:
            return None
        if len(batch):
            held.lenient = self._lenient
        end = self._until.get(log)
        if end is not None and batch.next_position > end:
            batch = batch[: bisect_left(batch.coordinates, end.coordinates)].ending_at(end)
        held.waiting.append(held.tracker.without_acked(batch))
        return held

    def is_current(self, held: HeldPartition) -> bool:
        """Whether what waits there may still be delivered."""
        return self._held.get(held.log) is held

    @property
    def all(self) -> list[HeldPartition]:
        """Each partition's present state."""
        return list(self._held.values())

    @property
    def finished(self) -> bool:
        """Whether all that is held was handed out up to ``until``."""
        if not self._until:
            return False
        for log, held in self._held.items():
            end = self._until.get(log)
            if end is None or held.tracker.position < end:
                return False
        return bool(self._held)

    def take_changes(self) -> list[tuple[HeldPartition, GroupPosition | Settlement]]:
        """What became of the logs with new acks. ``committing`` is held."""
        self._prepare()
        return [(held, held.tracker.take_change()) for held in self.all if held.tracker.dirty]

    def drop_all(self) -> None:
        """Hold nothing any more."""
        self._drop(list(self._held))

    def _prepare(self) -> None:
        if self.before_state is not None:
            self.before_state()

    def _begin(self, start: GroupPosition, *, lenient: bool) -> HeldPartition:
        log = start.position.log
        self._drop([log] if log in self._held else [])
        tracker = SharedTracker(self, start) if self._shares else Tracker(self, start, keeps=self._grouped)
        held = self._held[log] = HeldPartition(log, tracker, lenient=lenient or self._lenient)
        return held

    def _drop(self, logs: Sequence[Log]) -> None:
        for log in logs:
            self._held.pop(log).tracker.drop()
