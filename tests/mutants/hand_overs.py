"""Backends that are right as long as one member has everything, in order, and one thread asks."""

from __future__ import annotations

import time

import attrs

from mqplug import Position
from mqplug.spi import DeleteGroup, DescribeGroup, GroupPosition, Settlement, hookimpl
from mutants.base import Mutant, Proxy


class TakesAcksFromAnybody(Mutant):
    """Where members share a log, an ack counts, whoever has the message by now."""

    case = "ACK-29-shared"

    class Consumer(Proxy):
        def settle(self, settled, timeout):
            with self.inner._store.changed:
                for log, each in settled.items():
                    self.inner._table(log).settle_late(Settlement(each.acked))
            self.inner.settle(settled, timeout)


class GivesUpWhatWasFetched(Mutant):
    """Who has to give up its partitions, because it was away, commits all that it had fetched."""

    case = "ACK-29"

    class Consumer(Proxy):
        def close(self, timeout):
            at = {log: GroupPosition(Position(log, each)) for log, each in self.inner._positions.items()}
            if self.inner._group is not None:
                self.inner.commit(at, timeout)
            self.inner.close(timeout)


class StoresAHundredRuns(Mutant):
    """Of what is acked behind the position, a hundred runs are stored, and no bound is declared."""

    case = "ACK-30"
    runs = 100

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            most = self.mutant.runs
            less = {log: GroupPosition(at.position, at.acked[:most]) for log, at in positions.items()}
            self.inner.commit(less, timeout)


class StoresFewerRunsThanDeclared(StoresAHundredRuns):
    """Two hundred runs are declared, and fifty less are stored."""

    case = "ACK-30"
    runs = 150

    def capabilities(self, sound):
        return attrs.evolve(sound, acked_ranges_max=200)


class HandsOverWithoutGaps(Mutant):
    """A partition that is given up has its position stored, and not what was acked behind it."""

    case = "GRP-22"

    def open(self, connection, options, listener):
        return super().open(connection, options, Contiguous(listener, self))


class Contiguous(Proxy):
    """A listener that speaks of positions only."""

    def revoked(self, logs):
        return {log: GroupPosition(at.position) for log, at in self.inner.revoked(logs).items()}


class ReleasesBeforeItCommits(Mutant):
    """A member lets go of a partition, and stores its acks of it a moment later."""

    case = "GRP-23"

    def open(self, connection, options, listener):
        inner = super().open(connection, options, listener)
        if inner._seat is not None:
            inner._seat = Hurried(inner._seat, self)
        return inner


class Hurried(Proxy):
    """A place in a group that is free before whoever had it is done."""

    def changes(self):
        leaving, taken = self.inner.changes()
        if leaving:
            self.inner.release(leaving)
            time.sleep(0.01)
        return leaving, taken

    def release(self, logs):
        pass


class MovesWithoutGaps(Mutant):
    """A group that is moved from outside is given a position, and not what was acked behind it."""

    case = "GRP-25"

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        connection.move_group(group, {log: GroupPosition(at.position) for log, at in positions.items()})
        return True


class SeekOfSharersLeavesWhatIsOut(Mutant):
    """Where members share a log, a seek says what comes next, and leaves with each what it has."""

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
    """Who shares by key keeps a message for as long as it likes."""

    case = "ACK-11-shared"

    def open(self, connection, options, listener):
        if options.mode == "key_shared":
            options = attrs.evolve(options, max_processing=None)
        return super().open(connection, options, listener)


class GroupsInOneCase(Mutant):
    """The names of groups are kept in lower case, in which two may be one."""

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
