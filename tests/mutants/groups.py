"""Acks and hand-overs that are wrong in one place."""

from __future__ import annotations

from mqplug import (
    Position,
)
from mqplug.spi import (
    DescribeGroup,
    GroupPosition,
    Latest,
)
from mutants.base import Mutant, Proxy, Reading


class AcksNothing(Mutant):
    case = "ACK-01"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            pass


class AcksAtDelivery(Mutant):
    case = "ACK-02"

    class Consumer(Reading):
        def change(self, batch):
            self.inner.commit({batch.log: GroupPosition(batch.next_position)}, 1)
            return batch


class AcksCumulatively(Mutant):
    case = "ACK-03"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            ends = {log: at.acked[-1][1][0] + 1 for log, at in positions.items() if at.acked}
            through = {log: GroupPosition(Position(log, (ends[log],))) for log in ends}
            self.inner.commit({**positions, **through}, timeout)


class ForgetsRanges(Mutant):
    case = "ACK-03"

    class Consumer(Proxy):
        def commit(self, positions, timeout):
            self.inner.commit({log: GroupPosition(at.position) for log, at in positions.items()}, timeout)


class CommittedIsHigh(Mutant):
    case = "ACK-13"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if isinstance(action, DescribeGroup):
            return {log: GroupPosition(connection.resolve(Latest(), [log])[log]) for log in found}
        return found


class Everybody(Mutant):
    """Lets every member of a group read every partition."""

    case = "GRP-02"

    def open(self, connection, options, listener):
        inner = super().open(connection, options, listener)
        if inner._seat is not None:
            inner._seat = Greedy(inner._seat, self)
        return inner


class Greedy(Proxy):
    """A place in a group that takes all partitions."""

    def changes(self):
        taken = sorted(self.inner.wanted - self.inner.held, key=repr)
        self.inner.held |= set(taken)
        return [], taken


class NeverLeaves(Mutant):
    case = "GRP-05"

    class Consumer(Proxy):
        def close(self, timeout):
            pass


class TellsTwice(Mutant):
    case = "GRP-07"

    def open(self, connection, options, listener):
        return super().open(connection, options, Teller(listener, self))


class Teller(Proxy):
    """A listener that gets each assignment twice."""

    def assigned(self, positions):
        self.inner.assigned(positions)
        self.inner.assigned(positions)
