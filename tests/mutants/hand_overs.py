"""Backends that are right as long as one member has everything, in order, and one thread calls."""

from __future__ import annotations

import time

import attrs

from mqplug import Position
from mqplug.spi import DeleteGroup, DescribeGroup, GroupPosition, Settlement, hookimpl
from mutants.base import Mutant, Proxy


class TakesAcksFromAnybody(Mutant):
    """Counts an ack in a shared mode, whichever member has the message by then."""

    case = "ACK-29-shared"

    class Consumer(Proxy):
        def settle(self, settled, timeout):
            with self.inner._store.changed:
                for log, each in settled.items():
                    self.inner._table(log).settle_late(Settlement(each.acked))
            self.inner.settle(settled, timeout)


class GivesUpWhatWasFetched(Mutant):
    """Commits every fetched message when a member's driver is closed."""

    case = "ACK-29"

    class Consumer(Proxy):
        def close(self, timeout):
            at = {log: GroupPosition(Position(log, each)) for log, each in self.inner._positions.items()}
            if self.inner._group is not None:
                self.inner.commit(at, timeout)
            self.inner.close(timeout)


class StoresAHundredRuns(Mutant):
    """Stores at most a hundred acked ranges, and declares no limit."""

    case = "ACK-30"
    runs = 100

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            most = self.mutant.runs
            less = {log: GroupPosition(at.position, at.acked[:most]) for log, at in positions.items()}
            self.inner.commit(less, timeout)


class StoresFewerRunsThanDeclared(StoresAHundredRuns):
    """Declares two hundred acked ranges, and stores fifty fewer."""

    case = "ACK-30"
    runs = 150

    def capabilities(self, sound):
        return attrs.evolve(sound, acked_ranges_max=200)


class HandsOverWithoutGaps(Mutant):
    """Stores the position of a revoked partition, without the acked ranges."""

    case = "GRP-22"

    def open(self, connection, options, listener):
        return super().open(connection, options, Contiguous(listener, self))


class Contiguous(Proxy):
    """A listener that answers with positions only."""

    def revoked(self, logs):
        return {log: GroupPosition(at.position) for log, at in self.inner.revoked(logs).items()}


class ReleasesBeforeItCommits(Mutant):
    """Releases a partition a moment before storing its acks."""

    case = "GRP-23"

    def open(self, connection, options, listener):
        inner = super().open(connection, options, listener)
        if inner._seat is not None:
            inner._seat = Hurried(inner._seat, self)
        return inner


class Hurried(Proxy):
    """A place in a group that is free before its member is done."""

    def changes(self):
        leaving, taken = self.inner.changes()
        if leaving:
            self.inner.release(leaving)
            time.sleep(0.01)
        return leaving, taken

    def release(self, logs):
        pass


class MovesWithoutGaps(Mutant):
    """Moves a group to a position, without the acked ranges."""

    case = "GRP-25"

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        connection.move_group(group, {log: GroupPosition(at.position) for log, at in positions.items()})
        return True


class SeekOfSharersLeavesWhatIsOut(Mutant):
    """Leaves each member its messages in hand when a member in a shared mode seeks."""

    case = "SEEK-38"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            if not hasattr(self.inner, "settle"):
                self.inner.seek(positions, timeout)
                return
            with self.inner._store.changed:
                for log, at in positions.items():
                    self.inner._table(log)._cursor = at.coordinates


class ByKeyWithoutADeadline(Mutant):
    """Lets a member in key_shared keep a message for any time."""

    case = "ACK-11-shared"

    def open(self, connection, options, listener):
        if options.mode == "key_shared":
            options = attrs.evolve(options, max_processing=None)
        return super().open(connection, options, listener)


class GroupsInOneCase(Mutant):
    """Converts the names of groups to lower case, so that two may be one."""

    case = "GRP-24"

    def open(self, connection, options, listener):
        group = options.group.lower() if options.group is not None else None
        return super().open(connection, attrs.evolve(options, group=group), listener)

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        connection.move_group(group.lower(), positions)
        return True

    def administer(self, connection, action):
        if isinstance(action, DescribeGroup | DeleteGroup):
            action = attrs.evolve(action, group=action.group.lower())
        return super().administer(connection, action)
