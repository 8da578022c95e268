"""Where the seeks of a group, and the start of its first member, moved it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import attrs

from mqplug_testing.history._checker.expected_positions import PositionRange
from mqplug_testing.history._events.events import Coordinates, Event


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
