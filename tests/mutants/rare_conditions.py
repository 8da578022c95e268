"""Backends that are wrong far away, at numbers of two digits, with many messages in hand, or now and then."""

from __future__ import annotations

import threading
import time

import attrs

from mqplug import ConnectError, Position, PositionLost, TopicNotFound
from mqplug.spi import CreateTopic, DeleteTopic, DescribeTopic, GroupPosition, TopicInfo
from mutants.base import Mutant, Proxy, Sender

# places ----------------------------------------------------------------------------------------------------


class OffsetsOf32Bits(Mutant):
    case = "SEEK-36"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            short = {log: Position(log, (at.coordinates[0] & 0xFFFFFFFF,)) for log, at in positions.items()}
            self.inner.seek(short, timeout)


class GroupsMoveToTheEndAtMost(Mutant):
    """Moves a group at most to the end, and delivers messages from there, when it is moved beyond."""

    case = "SEEK-39"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            if self.inner._group is not None:
                high = {log: Position(log, self.inner._store.partition(log).high) for log in positions}
                positions = {log: min(at, high[log]) for log, at in positions.items()}
            self.inner.seek(positions, timeout)


class OffsetsOf64Bits(Mutant):
    """Passes an offset beyond 64 bits to the server, and raises the server's error."""

    case = "SEEK-37"

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            if any(at.coordinates[0] >= 2**63 for at in positions.values()):
                raise ConnectError("the server says: invalid argument")
            self.inner.seek(positions, timeout)


class NegativeIsFromTheEnd(Mutant):
    """Counts a negative offset from the end, as in a list."""

    case = "SEEK-37"

    class Connection(Proxy):
        def is_possible(self, coordinates):
            return len(coordinates) == 1

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            high = {log: self.inner._store.partition(log).high[0] for log in positions}
            found = {log: (at.coordinates[0], high[log]) for log, at in positions.items()}
            places = {log: place if place >= 0 else max(0, end + place) for log, (place, end) in found.items()}
            self.inner.seek({log: Position(log, (place,)) for log, place in places.items()}, timeout)


class ReadsTheFirstNumber(Mutant):
    """Checks only the first number of the coordinates."""

    case = "ID-17"

    class Connection(Proxy):
        def is_possible(self, coordinates):
            return self.inner.is_possible(coordinates[:1])


class BehindTheRemovedIsLost(Mutant):
    """Refuses to continue right after the last removed message, although no later one was removed."""

    case = "WM-24"

    def __init__(self, name):
        super().__init__(name)
        self.behind = set()

    class Connection(Proxy):
        def after(self, message_id):
            found = self.inner.after(message_id)
            self.mutant.behind.add(found)
            return found

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            for log, at in positions.items():
                low = self.inner._store.partition(log).low
                if at in self.mutant.behind and at.coordinates == low:
                    raise PositionLost("it was removed", log=log, low=Position(log, low))
            self.inner.seek(positions, timeout)


class CountsFromAnIndex(Mutant):
    """Counts the messages after a position from the nearest earlier entry of an index."""

    case = "WM-23"

    def since(self, positions):
        return {log: Position(log, (at.coordinates[0] // 5 * 5 or at.coordinates[0],)) for log, at in positions.items()}


# large numbers ---------------------------------------------------------------------------------------------


class PartitionsByText(Mutant):
    """Sorts partitions by the text of their numbers."""

    case = "TOP-11"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if isinstance(action, DescribeTopic):
            found = attrs.evolve(found, logs=tuple(sorted(found.logs, key=lambda log: str(log.partition))))
        return found


class SeekForgetsWhatIsAhead(Mutant):
    """Drops the prefetched messages of all partitions when one seeks."""

    case = "SEEK-25"

    class Consumer(Proxy):
        ahead = ()

        def poll(self, most, timeout):
            batches = self.ahead or self.inner.poll(most, timeout)
            self.ahead = [batch[200:] for batch in batches if len(batch) > 200]
            return [batch[:200] for batch in batches]

        def seek(self, positions, timeout):
            self.ahead = ()
            self.inner.seek(positions, timeout)


# deleted topics --------------------------------------------------------------------------------------------


class PositionsByName(Mutant):
    """Keeps the groups' positions of a deleted topic for the next topic of that name."""

    case = "TOP-16"

    def __init__(self, name):
        super().__init__(name)
        self.kept = {}

    def administer(self, connection, action):
        groups = connection.store._groups
        if isinstance(action, DeleteTopic):
            logs = [each.log for each in connection.store.topic(action.topic)]
            self.kept[action.topic] = {name: group.positions(logs) for name, group in groups.items()}
        found = super().administer(connection, action)
        if isinstance(action, CreateTopic) and isinstance(found, TopicInfo):
            for name, positions in self.kept.pop(action.topic, {}).items():
                for at in positions.values():
                    log = found.logs[at.position.log.partition]
                    connection.store.group(name).commit({log: GroupPosition(Position(log, at.position.coordinates))})
        return found


class DeletedIsAway(Mutant):
    """Reports the server as away to a consumer whose topic was deleted."""

    case = "TOP-17"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except TopicNotFound as error:
                raise ConnectError("the server does not answer") from error


# now and then ----------------------------------------------------------------------------------------------


class NapsWhenAsked(Mutant):
    """Takes a moment for each poll, even for one that must not wait."""

    case = "CON-19"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            time.sleep(0.06)
            return self.inner.poll(most, timeout)


class LosesAWakeUp(Mutant):
    """Fails to wake one waiting consumer in fifty, which polls again at the end of its timeout."""

    case = "CON-20"
    waits = 0

    class Consumer(Proxy):
        def poll(self, most, timeout):
            if found := self.inner.poll(most, 0):
                return found
            self.mutant.waits += 1
            if self.mutant.waits % 50 == 0:
                time.sleep(timeout)
                return self.inner.poll(most, 0)
            return self.inner.poll(most, timeout)


class LosesAmongSenders(Mutant):
    """Loses one of twenty overlapping sends, and reports it as stored."""

    case = "ORD-15"

    def __init__(self, name):
        super().__init__(name)
        self.lock = threading.Lock()
        self.inside = self.together = 0

    class Producer(Sender):
        def send(self, sendings):
            mutant = self.mutant
            with mutant.lock:
                mutant.inside += 1
            time.sleep(0)
            with mutant.lock:
                mutant.together += mutant.inside > 1
                lost = mutant.inside > 1 and mutant.together % 20 == 0
                mutant.inside -= 1
            if lost and len(sendings) == 1:
                partition = self.inner._store.topic(sendings[0].topic)[sendings[0].partition]
                sendings[0].stored(partition.log, partition.high)
            else:
                self.inner.send(sendings)
