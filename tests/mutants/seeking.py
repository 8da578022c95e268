"""Starts, seeks and watermarks that are wrong in one place."""

from __future__ import annotations

import attrs

from mqplug import (
    MessageId,
    Position,
    TopicNotFound,
)
from mqplug._consume.assignment import Assignment
from mqplug._consume.fetching import Fetcher
from mqplug.spi import (
    AtTime,
    CreateTopic,
    Latest,
)
from mutants.base import Mutant, Proxy, moved

ASSIGNED = Assignment.assigned


def _assigned_strictly(holdings, positions):
    """Forget in a group that the user allows lost positions."""
    ASSIGNED(holdings, positions)
    for held in holdings.all:
        held.lenient = False


class IsStrictWithGroups(Mutant):
    case = "SEEK-35"
    patches = ((Assignment, "assigned", _assigned_strictly),)


class CountsNoGaps(Mutant):
    case = "SEEK-35"
    patches = ((Fetcher, "gaps", property(lambda fetcher: 0, lambda fetcher, count: None)),)


class ForgetsWhatWasAckedBehindTheGap(Mutant):
    case = "SEEK-35-shared"

    class Consumer(Proxy):
        def pass_over(self, positions, timeout):
            self.inner.seek(positions, timeout)


class ExclusiveSkipsOne(Mutant):
    case = "SEEK-06"

    class Connection(Proxy):
        def after(self, message_id):
            return moved(self.inner.after(message_id), 1)


class ExclusiveIsInclusive(Mutant):
    case = "SEEK-11"

    class Connection(Proxy):
        def after(self, message_id):
            return moved(self.inner.after(message_id), -1)


class LatestDeliversLast(Mutant):
    case = "SEEK-03"

    def start(self, start, position):
        return moved(position, -1) if isinstance(start, Latest) and position.coordinates > (0,) else position


class LatestOnEmptySkips(Mutant):
    case = "CON-03"

    def start(self, start, position):
        return moved(position, 1) if isinstance(start, Latest) and position.coordinates == (0,) else position


class TimeIsExclusive(Mutant):
    case = "SEEK-20"

    def start(self, start, position):
        return moved(position, 1) if isinstance(start, AtTime) else position


class LastIsOneShort(Mutant):
    case = "SEEK-34"

    def start(self, start, position):
        return moved(position, 1) if type(start).__name__ == "Last" and start.count else position


class SeeksLate(Mutant):
    case = "SEEK-16"

    class Consumer(Proxy):
        later = None

        def poll(self, most, timeout):
            found = self.inner.poll(most, timeout)
            if found and self.later:
                self.inner.seek(*self.later)
                self.later = None
            return found

        def seek(self, *where):
            self.later = where


class SeekMovesEveryPartition(Mutant):
    case = "SEEK-25"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            self.inner.seek(positions, timeout)
            for log in self.inner._positions:
                self.inner._positions[log] = next(iter(positions.values())).coordinates


class SeekMovesOthers(Mutant):
    case = "SEEK-29"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.inner.poll(2, timeout)  # or all messages would have been fetched before

        def seek(self, positions, timeout):
            for each in self.mutant.consumers:
                each._positions.update({log: at.coordinates for log, at in positions.items() if log in each._positions})
            self.inner.seek(positions, timeout)


class SeekForgetsTheGroup(Mutant):
    case = "SEEK-30"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            self.inner._positions.update({log: at.coordinates for log, at in positions.items()})


class EmptyHasOne(Mutant):
    case = "WM-01"

    def marks(self, marks):
        empty = marks.low == marks.high
        return attrs.evolve(marks, high=moved(marks.high, 1)) if empty else marks


class HighIsShort(Mutant):
    case = "WM-06"

    def marks(self, marks):
        return attrs.evolve(marks, high=moved(marks.high, -1)) if marks.low != marks.high else marks


class LowStays(Mutant):
    case = "WM-05"

    def marks(self, marks):
        return attrs.evolve(marks, low=Position(marks.low.log, (0,)))


class AskingMoves(Mutant):
    case = "WM-08"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.inner.poll(1, timeout)  # or all messages would have been fetched before

    def marks(self, marks):
        for each in self.consumers:
            if marks.high.log in each._positions:
                each._positions[marks.high.log] = marks.high.coordinates
        return marks


class BoundIsNext(Mutant):
    case = "WM-07"

    def bounds(self, bounds):
        last = bounds.last_id
        return attrs.evolve(bounds, last_id=MessageId(last.log, (last.coordinates[0] + 1,))) if last else bounds


class CountIsGuessed(Mutant):
    case = "WM-18"

    def marks(self, marks):
        return attrs.evolve(marks, count=marks.count + 1)


class MissingTopicIsEmpty(Mutant):
    case = "WM-13"

    def administer(self, connection, action):
        try:
            return super().administer(connection, action)
        except TopicNotFound:
            return super().administer(connection, CreateTopic(action.topic))


class EmptyIsFresh(Mutant):
    """Reports a topic that was trimmed completely as a new one."""

    case = "WM-03"

    def marks(self, marks):
        return attrs.evolve(marks, high=Position(marks.high.log, (0,))) if marks.low == marks.high else marks
