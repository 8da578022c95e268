"""The messages that a group had acked at a moment: surely, or possibly.

Seeks of the group, and the start of its first member, move it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import attrs

from mqplug_testing.history._checker.consumer_epochs import Ack, Epochs, seek_is_lenient
from mqplug_testing.history._checker.seen_logs import (
    ANYWHERE,
    BEFORE_ALL,
    PositionRange,
    SeenLogs,
    expected_range,
)
from mqplug_testing.history._events import ConsumerOpened, ConsumerSought, Coordinates, Event
from mqplug_testing.history._history import History


@attrs.frozen
class GroupMove:
    """A seek of a group in one partition, or the start of its first member."""

    event: Event
    to: PositionRange
    certain: bool

    def may_forget(self, place: Coordinates) -> bool:
        """Return whether acks of this message may have been forgotten."""
        return self.to.low <= place

    def forgets(self, place: Coordinates) -> bool:
        """Return whether acks of this message are surely forgotten."""
        return self.certain and self.to.high is not None and self.to.high <= place


class GroupMovesDone:
    """The combined effect of the moves of a group in one partition at a moment.

    Hundreds of messages are looked up at the same moment, and a long history has thousands of moves.
    """

    def __init__(self, moves: Sequence[GroupMove], moment: int) -> None:
        done = [move for move in moves if move.event.ended < moment and move.certain]
        forgetting = sorted((move.to.high, move.event.began) for move in done if move.to.high is not None)
        self._from = [high for high, _ in forgetting]
        self._last = list(accumulate((began for _, began in forgetting), max))
        begun = sorted(((move.event.ended, _reach(move)) for move in moves if move.event.began < moment), reverse=True)
        self._ended = [-ended for ended, _ in begun]
        self._reach = list(accumulate((reach for _, reach in begun), max))

    def forgotten(self, place: Coordinates) -> int:
        """Return the start of the last move that surely forgot acks of this message, or -1 if none did."""
        several = bisect_right(self._from, place)
        return self._last[several - 1] if several else -1

    def may_have_passed(self, place: Coordinates, since: int) -> bool:
        """Return whether a move that ended then or later may have passed this message, so that it counts as acked."""
        several = bisect_right(self._ended, -since)
        return several > 0 and (False, place) < self._reach[several - 1]


def _reach(move: GroupMove) -> tuple[bool, Coordinates]:
    """Return the position before which a move may have passed messages; it may have passed all."""
    return (True, ()) if move.to.high is None else (False, move.to.high)


class GroupAcks:
    """The acks and moves of each group."""

    def __init__(self, history: History, logs: SeenLogs, epochs: Epochs) -> None:
        self._logs = logs
        self._epochs = epochs
        self._moves: dict[tuple[str, int], list[GroupMove]] = defaultdict(list)
        self._moved: tuple[tuple[str, int, int], GroupMovesDone] | None = None  # of the last query
        self.names: set[str] = set()
        self._settled: set[str] = set()  # groups with a position
        self._began: dict[str, int] = {}  # when a group surely had a position
        for event in history.events:
            match event.did:
                case ConsumerOpened(group=str(group)):
                    self._note_open(event, event.did, group)
                case ConsumerSought(consumer=consumer) if event.outcome != "failed":
                    self._note_seek(event, event.did, consumer)
                case _:
                    pass

    def _note_open(self, event: Event, opened: ConsumerOpened, group: str) -> None:
        """Note the start of a group's first member; later ones do not move the group."""
        self.names.add(group)
        if event.ok:
            self._began.setdefault(group, event.ended)
        if group in self._settled or event.outcome == "failed" or opened.start.kind == "earliest":
            self._settled |= {group} if event.ok else set()
            return
        self._settled |= {group} if event.ok else set()
        for partition in self._logs.partitions:
            to = expected_range(self._logs, opened.start, partition, event, lenient=True)
            self._moves[group, partition].append(GroupMove(event, to, event.ok))

    def _note_seek(self, event: Event, seek: ConsumerSought, consumer: str) -> None:
        opened = self._epochs.opened.get(consumer)
        group = opened.did.group if opened is not None and isinstance(opened.did, ConsumerOpened) else None
        if group is None:
            return
        if not event.ok or not seek.landed:  # it may have moved any partition anywhere
            for partition in self._logs.partitions:
                self._moves[group, partition].append(GroupMove(event, ANYWHERE, certain=False))
        for partition, place in seek.landed:
            # Retention may have passed the target of the seek: the range then reaches as far as it trimmed.
            to = expected_range(self._logs, seek.to, partition, event, lenient=seek_is_lenient(seek))
            removed = self._passed_over(event, partition) if to.lenient else BEFORE_ALL
            met = PositionRange(min(to.low, place), None if to.high is None else max(to.high, place, removed))
            self._moves[group, partition].append(GroupMove(event, met, event.ok))

    def _passed_over(self, seek: Event, partition: int) -> Coordinates:
        """Return the position before which messages may have been trimmed by the first delivery after this seek."""
        epoch = self._epochs.after.get((seek.number, partition))
        came = epoch.deliveries[0] if epoch is not None and epoch.deliveries else None
        return self._logs.trimmed_until(partition, seek.ended if came is None else came.ended)

    # asking ------------------------------------------------------------------------------------------------

    def possibly_acked(self, group: str, partition: int, place: Coordinates, moment: int) -> bool:
        """Return whether the group may have passed this message at that time."""
        if self._logs.may_be_trimmed(partition, place, self._began.get(group, moment)):
            return True  # EARLIEST was past it already
        moved = self._moved_by(group, partition, moment)
        forgotten = moved.forgotten(place)
        if moved.may_have_passed(place, forgotten):
            return True
        acks = self._epochs.acks.get((group, partition, place), ())
        if any(ack.event.began < moment and ack.event.ended >= forgotten for ack in acks):
            return True
        if not acks or self._logs.guarantee.assignment_events:
            return False
        moves = self._moves[group, partition]
        seeks = [move.event for move in moves if move.event.ended < moment and move.forgets(place)]
        return any(ack.event.began < moment and self._outlives(ack, seeks) for ack in acks)

    def _moved_by(self, group: str, partition: int, moment: int) -> GroupMovesDone:
        key = group, partition, moment
        if self._moved is None or self._moved[0] != key:
            self._moved = key, GroupMovesDone(self._moves[group, partition], moment)
        return self._moved[1]

    def surely_open(self, group: str, partition: int, place: Coordinates, moment: int) -> bool:
        """Return whether a message was surely outstanding for the group at that time: not acked, passed or trimmed."""
        return not self.possibly_acked(group, partition, place, moment) and not self._logs.may_be_trimmed(
            partition, place, moment
        )

    def _outlives(self, ack: Ack, seeks: Sequence[Event]) -> bool:
        """Return whether another member may store an ack after these seeks, because it is not notified of them."""
        member = ack.consumer
        left = self._epochs.left.get(member)
        return all(
            _consumer(seek) != member and (left is None or left >= seek.began)
            for seek in seeks
            if seek.began > ack.event.ended
        )

    def stored_acks(self, group: str, partition: int, place: Coordinates, began: int, ended: int) -> list[Ack]:
        """Return the acks that were stored before ``began``, and that no seek up to ``ended`` may have undone."""
        moves = [move for move in self._moves[group, partition] if move.event.began < ended and move.may_forget(place)]
        return [
            ack
            for ack in self._epochs.acks.get((group, partition, place), ())
            if ack.stored is not None and ack.stored.ended < began
            if not any(move.event.ended >= ack.since for move in moves)
        ]

    def gave_back(self, partition: int, place: Coordinates) -> set[str]:
        """Return the consumers that nacked this message."""
        return self._epochs.gave_back.get((partition, place), set())

    def may_go_back(self, group: str, partition: int, since: int, until: int) -> bool:
        """Return whether a seek may have moved the group in that time."""
        return any(m.event.ended >= since and m.event.began <= until for m in self._moves[group, partition])


def _consumer(event: Event) -> str:
    return str(getattr(event.did, "consumer", ""))
