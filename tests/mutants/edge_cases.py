"""Batches, starts and seeks that are wrong only at an edge: of a batch, of a partition, of a second."""

from __future__ import annotations

import time

import attrs

from mqplug import Position, TopicNotFound
from mqplug.spi import AtTime, Batch, GroupPosition, Last, Latest, hookimpl
from mutants.base import Mutant, Proxy, Reading, Sending, moved, rebuilt

# delivery --------------------------------------------------------------------------------------------------


class SkipsAfterAFullBatch(Mutant):
    """Skips the message after a batch of the full requested size."""

    case = "ORD-11"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            found = self.inner.poll(most, timeout)
            if sum(map(len, found)) == most > 1:
                log = found[-1].log
                self.inner._positions[log] = moved(found[-1].next_position, 1).coordinates
            return found


class ReversesHeadersInBatches(Mutant):
    case = "HP-05"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, headers=[each[::-1] for each in batch.headers]) if len(batch) > 1 else batch


class EmptyKeyIsNoneInBatches(Mutant):
    case = "HP-03"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, keys=[key or None for key in batch.keys]) if len(batch) > 1 else batch


class EmptyHeaderIsNone(Mutant):
    case = "HP-08"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, headers=[[(name, value or None) for name, value in each] for each in batch.headers])


class NoHeaderTwice(Mutant):
    case = "HP-05"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, headers=tuple(dict(record.headers).items()))


class RoundsTimes(Mutant):
    """Rounds timestamps down to whole seconds."""

    case = "PRO-21"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, timestamp=record.timestamp and record.timestamp // 1000 * 1000)


class OneTimeForABatch(Mutant):
    """Gives all messages of a batch the timestamp of the first."""

    case = "PRO-21"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, timestamps=[batch.timestamps[0]] * len(batch)) if len(batch) else batch


class EndsLinesItsWay(Mutant):
    case = "HP-04"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, value=record.value and record.value.replace(b"\r\n", b"\n"))


class ResumeRepeats(Mutant):
    case = "CON-16"

    class Consumer(Proxy):
        def resume(self, logs):
            self.inner.resume(logs)
            for log in logs:
                (offset,) = self.inner._positions[log]
                self.inner._positions[log] = (max(0, offset - 1),)


# starts and seeks ------------------------------------------------------------------------------------------


class LatestIsLate(Mutant):
    """Resolves LATEST at the first poll."""

    case = "CON-02"

    def start(self, start, position):
        if isinstance(start, Latest):
            self.late = {*getattr(self, "late", ()), position}
        return position

    class Consumer(Proxy):
        began = False

        def poll(self, most, timeout):
            late = () if self.began else getattr(self.mutant, "late", ())
            self.began = True
            for log, at in self.inner._positions.items():
                if Position(log, at) in late:
                    self.inner._positions[log] = self.inner._store.partition(log).high
            return self.inner.poll(most, timeout)


class SecondSeekIsIgnored(Mutant):
    """Ignores a seek that follows another without a poll in between."""

    case = "SEEK-14"

    class Consumer(Proxy):
        sought = False

        def poll(self, most, timeout):
            self.sought = False
            return self.inner.poll(most, timeout)

        def seek(self, positions, timeout):
            if not self.sought:
                self.inner.seek(positions, timeout)
            self.sought = True


class SeekToLastIsTheEnd(Mutant):
    case = "SEEK-11"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            highs = {log: self.inner._store.partition(log).high for log in positions}
            ends = {log: moved(at, 1) for log, at in positions.items() if (at.coordinates[0] + 1,) == highs[log]}
            self.inner.seek({**positions, **ends}, timeout)


class SeekBackIsIgnored(Mutant):
    """Never moves a group's stored position back."""

    case = "ACK-16"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            group, store = self.inner._group, self.inner._store
            before = store.positions(group, positions) if group else {}
            self.inner.seek(positions, timeout)
            higher = {log: at for log, at in before.items() if at.position > positions[log]}
            if higher:
                store.store_positions(group, higher)


class TimeOfLastOfEquals(Mutant):
    """Finds the last of several messages with the same time."""

    case = "SEEK-22"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        found = connection.resolve(start, logs)
        if not isinstance(start, AtTime):
            return found
        return {log: self.last_of_equals(connection.store.partition(log), at) for log, at in found.items()}

    def last_of_equals(self, partition, position):
        times, row = partition.rows.log_times, partition.row(position.coordinates)
        while row + 1 < len(times) and times[row + 1] == times[row]:
            row += 1
            position = moved(position, 1)
        return position


class TimeInSeconds(Mutant):
    """Looks a time up by its whole second."""

    case = "SEEK-21"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        if isinstance(start, AtTime):
            start = AtTime(start.milliseconds // 1000 * 1000)
        return connection.resolve(start, logs)


class LastOfAll(Mutant):
    """Counts the last n over all partitions together."""

    case = "SEEK-34"

    @hookimpl
    def mqplug_resolve_start(self, connection, start, logs):
        if isinstance(start, Last):
            start = Last(-(-start.count // len(logs)))
        return connection.resolve(start, logs)


class StartMovesTheGroup(Mutant):
    """Begins at start=, even if the group has a position."""

    case = "CON-11"

    def open(self, connection, options, listener):
        if options.group is not None and isinstance(options.start, Latest):
            ends = connection.resolve(options.start, options.logs)
            connection.store.store_positions(options.group, {log: GroupPosition(at) for log, at in ends.items()})
        return super().open(connection, options, listener)


class NeedNotExist(Mutant):
    """Creates a missing group that must exist."""

    case = "GRP-17"

    def open(self, connection, options, listener):
        return super().open(connection, attrs.evolve(options, must_exist=False), listener)


class ResetsTheBusy(Mutant):
    """Resets a group with live members."""

    case = "GRP-17"

    @hookimpl
    def mqplug_move_group(self, connection, group, positions):
        with connection.store.changed:
            connection.store.group(group).move(positions)
        return True


# topics that are replaced ----------------------------------------------------------------------------------


class SaysNotWhichTopicIsGone(Mutant):
    """Does not say in its error which of several topics is gone."""

    case = "CON-17"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except TopicNotFound:
                raise TopicNotFound("a topic was deleted") from None


class TellsOfADeletedTopicInSilence(Mutant):
    """Reports a deleted topic only after a second without other messages."""

    case = "CON-17"

    class Consumer(Proxy):
        heard = 0.0
        gone = None

        def poll(self, most, timeout):
            try:
                batches = self.inner.poll(most, timeout)
            except TopicNotFound as error:
                self.gone = error
                self.inner._drop([log for log in self.inner._positions if not self.is_there(log)])
                return []
            self.heard = time.monotonic() if batches else self.heard
            if self.gone is not None and time.monotonic() - self.heard > 1:
                raise self.gone
            return batches

        def is_there(self, log):
            try:
                return self.inner._store.partition(log)
            except TopicNotFound:
                return False


class ReadsOnInTheNewTopic(Mutant):
    """Continues from the old position in a topic that was created again."""

    case = "CON-18"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except TopicNotFound:
                store, held = self.inner._store, self.inner._positions
                for log in list(held):
                    new = store.topic(log.topic)[0]
                    if new.log is not log and (batch := new.read(held[log], most, 1 << 20)) is not None:
                        held[log] = batch.next_position.coordinates
                        return [Batch(log, Position(log, held[log]), len(batch), batch._columns)]
                return []


class CommitsByName(Mutant):
    """Stores acks of a deleted topic as the group's position in the one created again."""

    case = "CON-18"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            found = {}
            for log, at in positions.items():
                new = self.inner._store.topic(log.topic)[log.partition].log
                found[new] = attrs.evolve(at, position=Position(new, at.position.coordinates))
            self.inner.commit(found, timeout)
