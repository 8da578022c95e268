"""Groups, watermarks and retention that are wrong only at an edge: of a name, of a commit, of a partition."""

from __future__ import annotations

import attrs

from mqplug import Bounds, MessageId, Position
from mqplug.spi import DescribeGroup, GroupPosition, Last, ListGroups, Trim, hookimpl
from mutants.base import Mutant, Proxy, moved

# groups and acks -------------------------------------------------------------------------------------------


class PrefixesShareAGroup(Mutant):
    """Treats groups as one if the name of one is a prefix of the other's."""

    case = "GRP-15"
    known = frozenset()

    def named(self, group):
        like = [name for name in self.known if group and group.startswith(name)]
        self.known |= {group} - {None}
        return min(like, key=len) if like else group

    def open(self, connection, options, listener):
        return super().open(connection, attrs.evolve(options, group=self.named(options.group)), listener)

    def administer(self, connection, action):
        if isinstance(action, DescribeGroup):
            action = attrs.evolve(action, group=self.named(action.group))
        return super().administer(connection, action)


class LastAckIsLost(Mutant):
    """Loses the last ack of a commit."""

    case = "ACK-13"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            shorter = {log: moved(at.position, -1) for log, at in positions.items() if at.position.coordinates > (1,)}
            less = {log: GroupPosition(at, positions[log].acked) for log, at in shorter.items()}
            self.inner.commit({**positions, **less}, timeout)


class CommitsOneMoreOnRevoke(Mutant):
    """Commits one message too many when a partition is revoked."""

    case = "GRP-04"

    def open(self, connection, options, listener):
        return super().open(connection, options, Hasty(listener, self))


class Hasty(Proxy):
    """A listener that answers with one message more than was acked."""

    def revoked(self, logs):
        return {
            log: GroupPosition(moved(at.position, 1), at.acked) for log, at in self.inner.revoked(logs).items()
        }  # fmt: skip


class OnlyOneRange(Mutant):
    """Stores only the first acked range after a gap."""

    case = "ACK-03"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            self.inner.commit({log: GroupPosition(at.position, at.acked[:1]) for log, at in positions.items()}, timeout)


class ListsAllGroups(Mutant):
    """Lists the groups of all topics when those of one are requested."""

    case = "GRP-17"

    def administer(self, connection, action):
        return super().administer(connection, ListGroups() if isinstance(action, ListGroups) else action)


class CountsNoMembers(Mutant):
    case = "GRP-17"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        return [attrs.evolve(each, members=0) for each in found] if isinstance(action, ListGroups) else found


# watermarks and retention ----------------------------------------------------------------------------------


class WatermarksOfTheFirst(Mutant):
    """Reports the watermarks of partition 0 for all partitions."""

    case = "WM-12"

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        found = connection.watermarks(logs, since or {})
        for log, marks in found.items():
            first = next((found[each] for each in found if each.topic == log.topic and each.partition == 0), marks)
            low, high = (Position(log, each.coordinates) for each in (first.low, first.high))
            found[log] = attrs.evolve(marks, low=low, high=high, count=first.count)
        return found


class LagOfTheFirst(Mutant):
    """Counts a group's lag from its position only in partition 0."""

    case = "WM-11"

    def since(self, positions):
        return {log: at for log, at in positions.items() if log.partition == 0}


class FirstStaysAfterATrim(Mutant):
    case = "WM-05"

    def bounds(self, bounds):
        first = bounds.first_id
        return attrs.evolve(bounds, first_id=MessageId(first.log, (0,))) if first else bounds


class TrimsOneTooMany(Mutant):
    case = "WM-05"

    def administer(self, connection, action):
        if isinstance(action, Trim):
            action = Trim({log: moved(at, 1) for log, at in action.before.items()})
        return super().administer(connection, action)


class TrimsAllPartitions(Mutant):
    case = "WM-05"

    def administer(self, connection, action):
        if isinstance(action, Trim):
            (at,) = {each.coordinates for each in action.before.values()}
            for partition in connection.store.topic(next(iter(action.before)).topic):
                partition.trim(at)
        return super().administer(connection, action)


class CountsWhatWasTrimmed(Mutant):
    case = "WM-18"

    def marks(self, marks):
        return attrs.evolve(marks, count=marks.count + marks.low.coordinates[0])


class BoundsOfWhatHasAValue(Mutant):
    """Leaves messages with an empty value out of the bounds."""

    case = "WM-21"

    @hookimpl
    def mqplug_bounds(self, connection, logs):
        found = {}
        for log in logs:
            rows = connection.store.partition(log).rows
            ids = [MessageId(log, at) for at, value in zip(rows.places, rows.values, strict=True) if value]
            found[log] = Bounds(ids[0], ids[-1]) if ids else Bounds(None, None)
        return found


class LastCountsWhatHasAValue(Mutant):
    """Skips messages with an empty value in ``last(n)``."""

    case = "WM-21"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = super().mqplug_resolve_start(connection, start, logs)
        for log in logs if isinstance(start, Last) else ():
            rows = connection.store.partition(log).rows
            places = [at for at, value in zip(rows.places, rows.values, strict=True) if value]
            found[log] = Position(log, places[-start.count :][0]) if places else found[log]
        return found


class LastPassesOverTombstones(Mutant):
    """Skips tombstones in ``last(n)``, and counts empty values."""

    case = "WM-21"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = super().mqplug_resolve_start(connection, start, logs)
        for log in logs if isinstance(start, Last) else ():
            rows = connection.store.partition(log).rows
            places = [at for at, value in zip(rows.places, rows.values, strict=True) if value is not None]
            found[log] = Position(log, places[-start.count :][0]) if places else found[log]
        return found
