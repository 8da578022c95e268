"""Backends that misunderstand starts, or compute wrongly with positions."""

from __future__ import annotations

from mqplug import Position
from mqplug.spi import AtTime, GroupPosition, hookimpl
from mutants.base import Mutant, Proxy, moved


class LooksAtTheFirstTopic(Mutant):
    """Resolves a start of many topics correctly only for the first; the others get their first offset."""

    case = "WM-25"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = super().mqplug_resolve_start(connection, start, logs)
        return {log: at if log.topic == logs[0].topic else Position(log, (0,)) for log, at in found.items()}


class NoneIsTheBeginning(Mutant):
    """Takes the server's -1 for a time after the last message as the beginning."""

    case = "WM-26"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = super().mqplug_resolve_start(connection, start, logs)
        if not isinstance(start, AtTime):
            return found
        marks = connection.watermarks(logs, {})
        return {log: marks[log].low if at == marks[log].high else at for log, at in found.items()}


class LooksAsAGroup(Mutant):
    """Resolves starts with a group, which stays."""

    case = "WM-27"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = super().mqplug_resolve_start(connection, start, logs)
        with connection.store.changed:
            connection.store.store_positions("console", {log: GroupPosition(at) for log, at in found.items()})
        return found


class AdvancesOneMore(Mutant):
    case = "WM-30"

    class Connection(Proxy):
        def advance(self, position, count):
            return moved(position, count + 1 if count else 0)


class CountsBetween(Mutant):
    """Leaves the first message out of a distance."""

    case = "WM-30"

    class Connection(Proxy):
        def distance(self, start, until):
            return self.inner.distance(start, until) - 1


class AdvancesToTheEnd(Mutant):
    """Moves a position at most to the current end of the log."""

    case = "WM-31"

    class Connection(Proxy):
        def advance(self, position, count):
            with self.inner.store.changed:
                high = Position(position.log, self.inner.store.partition(position.log).high)
            return max(position, min(self.inner.advance(position, count), high))


class AdvancesIn64Bits(Mutant):
    case = "WM-31"

    class Connection(Proxy):
        def advance(self, position, count):
            return Position(position.log, (self.inner.advance(position, count).coordinates[0] & (2**63 - 1),))


class OwnsAll(Mutant):
    case = "WM-32"

    class Connection(Proxy):
        def owns(self, log):
            return True
