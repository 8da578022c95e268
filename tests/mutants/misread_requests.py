"""Backends that misread requests, and servers whose unreachability is reported wrongly."""

from __future__ import annotations

import time

import mqplug
from mqplug import ConnectError, TopicNotFound, memory
from mqplug.spi import GroupPosition, Latest
from mutants.base import Mutant, Proxy


class Sluggish(Mutant):
    """Polls for five seconds, whatever the timeout."""

    case = "TO-01"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            time.sleep(5)
            return self.inner.poll(most, 0)


class LatestAgain(Mutant):
    """Resolves LATEST whenever a member joins."""

    case = "GRP-19"

    def open(self, connection, options, listener):
        driver = super().open(connection, options, listener)
        if isinstance(options.start, Latest):
            again = connection.resolve(options.start, options.logs)
            connection.store.store_positions(options.group, {log: GroupPosition(at) for log, at in again.items()})
        return driver


class KeepsPosition(Mutant):
    """Stores positions for consumers without a group: the second begins where the first stopped."""

    case = "GRP-03"
    stopped: dict[object, tuple[int, ...]] = {}  # noqa: RUF012 - shared by all

    class Consumer(Proxy):
        def close(self, timeout):
            KeepsPosition.stopped.update(self.inner._positions)
            self.inner.close(timeout)

    def open(self, connection, options, listener):
        driver = super().open(connection, options, listener)
        driver._positions.update({log: at for log, at in KeepsPosition.stopped.items() if log in driver._positions})
        return driver


class CreatesWhatIsMissing(Mutant):
    """Creates a missing topic when it is requested."""

    case = "TOP-06"

    def administer(self, connection, action):
        try:
            return super().administer(connection, action)
        except TopicNotFound:
            return memory.mqplug_administer(connection, mqplug.spi.CreateTopic(action.topic))


class Reaching(Mutant):
    """Memory that reports unreachable servers. This one is sound."""

    def hooks(self, connect):
        return {**super().hooks(connect), "unreachable": self.unreachable}

    def unreachable(self, host, port, timeout):
        raise ConnectError(f"{host}:{port} does not answer")


Reaching.sound = Reaching


class ConnectsLate(Reaching):
    case = "LIF-05"

    def unreachable(self, host, port, timeout):
        time.sleep(timeout + 4)
        return super().unreachable(host, port, timeout)


class ConnectsUntyped(Reaching):
    case = "LIF-05"

    def unreachable(self, host, port, timeout):
        raise OSError(f"{host}:{port} does not answer")


class ConnectsVaguely(Reaching):
    case = "LIF-05"

    def unreachable(self, host, port, timeout):
        raise ConnectError("no")


class ConnectsAnyway(Reaching):
    case = "LIF-05"

    def unreachable(self, host, port, timeout):
        return mqplug.connect("memory")
