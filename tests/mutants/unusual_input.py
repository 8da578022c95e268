"""Backends that fail on unusual input: a trimmed topic, an empty key in shared modes, a time of 0."""

from __future__ import annotations

import time

import attrs

from mqplug import MessageId, Position
from mqplug.spi import Earliest, Last, hookimpl
from mutants.base import Mutant, Proxy, Reading, Sending, moved, rebuilt

# trimmed topics --------------------------------------------------------------------------------------------


class GroupsBeginAtZero(Mutant):
    """Resolves EARLIEST to the coordinate 0 for a group, whatever was trimmed."""

    case = "GRP-21"

    class Connection(Proxy):
        def start_group(self, group, options):
            if isinstance(options.start, Earliest):
                options = attrs.evolve(options, start={log: Position(log, (0,)) for log in options.logs})
            self.inner.start_group(group, options)


class CountsBackBeyondLow(Mutant):
    """Resolves ``last(n)`` to high less n, even if that lies before low."""

    case = "GRP-21"

    class Connection(Proxy):
        def resolve(self, start, logs):
            if isinstance(start, Last):
                with self.inner.store.changed:
                    ends = {log: self.inner.store.partition(log).high[0] for log in logs}
                return {log: Position(log, (max(0, end - start.count),)) for log, end in ends.items()}
            return self.inner.resolve(start, logs)

        def start_group(self, group, options):
            start = options.start
            if isinstance(start, Last):
                options = attrs.evolve(options, start=self.resolve(start, options.logs))
            self.inner.start_group(group, options)


class LastOfATrimmedIsOneShort(Mutant):
    """Counts the messages after a trim one short in ``last(n)``."""

    case = "GRP-21"

    class Connection(Proxy):
        def resolve(self, start, logs):
            found = self.inner.resolve(start, logs)
            if isinstance(start, Last):
                low = {log: self.inner.store.partition(log).low for log in logs}
                found = {log: moved(at, 1) if (0,) < low[log] < at.coordinates else at for log, at in found.items()}
            return found


class HighIsACount(Mutant):
    """Reports the number of stored messages as high, unless it is 0."""

    case = "WM-22"

    def marks(self, marks):
        stored = marks.high.coordinates[0] - marks.low.coordinates[0]
        return attrs.evolve(marks, high=Position(marks.high.log, (stored,))) if stored else marks


class BoundsOfWhatIsGone(Mutant):
    """Reports the last trimmed message as the bounds of an empty topic."""

    case = "WM-03"

    @hookimpl
    def mqplug_bounds(self, connection, logs):
        found = dict(connection.bounds(logs))
        for log, bounds in found.items():
            high = connection.store.partition(log).high[0]
            if bounds.first_id is None and high:
                gone = MessageId(log, (high - 1,))
                found[log] = attrs.evolve(bounds, first_id=gone, last_id=gone)
        return found


class LagOfTheTrimmed(Mutant):
    """Counts messages in a group's lag that were trimmed before the group came to them."""

    case = "WM-22"

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        found = connection.watermarks(logs, since or {})
        for log in set(since or {}).intersection(found):
            behind = found[log].low.coordinates[0] - since[log].coordinates[0]
            found[log] = attrs.evolve(found[log], count=found[log].count + max(0, behind))
        return found


class HighDips(Mutant):
    """Reports a high of twenty messages earlier for a moment after every tenth send."""

    case = "WM-09"

    def __init__(self, name):
        super().__init__(name)
        self.sends, self.dips = 0, 0.0

    class Producer(Sending):
        def change(self, record):
            return record

        def send(self, sendings):
            super().send(sendings)
            self.mutant.sends += 1
            if self.mutant.sends % 10 == 0:
                self.mutant.dips = time.monotonic() + 0.001

    def marks(self, marks):
        if time.monotonic() < self.dips and marks.high.coordinates > (20,):
            return attrs.evolve(marks, high=moved(marks.high, -20))
        return marks


# payloads --------------------------------------------------------------------------------------------------


class OfSharers(Mutant):
    """Memory that changes the messages of members in shared modes."""

    modes = ("shared", "key_shared")

    class Consumer(Reading):
        def change(self, batch):
            return self.mutant.change(batch) if self.mutant.mode_of(self.inner) in self.mutant.modes else batch

    def open(self, connection, options, listener):
        inner = super().open(connection, options, listener)
        inner.opened_in = options.mode
        return inner

    def mode_of(self, consumer):
        return consumer.opened_in


class SharersGetNone(OfSharers):
    """Replaces empty values with None in shared modes."""

    case = "HP-17"

    def change(self, batch):
        return rebuilt(batch, values=[value or None for value in batch.values])


class SharersByKeyGetNoHeaders(OfSharers):
    """Drops the headers of messages that come again in key_shared."""

    case = "HP-18"
    modes = ("key_shared",)

    def change(self, batch):
        kept = zip(batch.headers, batch.attempts, strict=True)
        return rebuilt(batch, headers=[each if attempt == 1 else () for each, attempt in kept])


class SharersGetNoEmptyKey(OfSharers):
    """Replaces empty keys with None in shared mode."""

    case = "HP-17"
    modes = ("shared",)

    def change(self, batch):
        return rebuilt(batch, keys=[key or None for key in batch.keys])


class EmptyKeysGoAnywhere(Mutant):
    """Treats an empty key as no key when assigning messages in key_shared, and delivers it."""

    case = "KEY-11"

    def open(self, connection, options, listener):
        for log in options.logs:
            partition = connection.store.partition(log)
            if not hasattr(partition, "told"):
                partition.told = partition.upcoming
                partition.upcoming = lambda at, most, partition=partition: (
                    each._replace(key=each.key or None) for each in partition.told(at, most)
                )
        return super().open(connection, options, listener)


class ZeroIsNow(Mutant):
    """Treats a timestamp of 0 as missing."""

    case = "PRO-27"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, timestamp=record.timestamp or None)
