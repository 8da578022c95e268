"""Memory as a backend whose ids have gaps and two coordinates: message n is (n // 4, 3 * (n % 4) + 1)."""

from __future__ import annotations

import attrs
from mutants import Mutant, Proxy

from mqplug import Bounds, MessageId, Position, PositionLost
from mqplug.spi import Batch, DescribeGroup, GroupPosition, Trim


def outward(offset):
    """The coordinates of a message."""
    return offset // 4, 3 * (offset % 4) + 1


def inward(coordinates):
    """The offset of the message at these coordinates, or else of the next one."""
    page, row = coordinates
    return 4 * page + min(4, (row + 1) // 3)


def point(position):
    """A position of ours, a little before the message that comes next."""
    page, row = outward(position.coordinates[0])
    return Position(position.log, (page, row - 1))


def offset_of(position):
    """A position of the memory backend."""
    return Position(position.log, (inward(position.coordinates),))


def group_outward(stored):
    """Where a group stands, as ours."""
    acked = tuple((outward(first), outward(last)) for (first,), (last,) in stored.acked)
    return GroupPosition(point(stored.position), acked)


def group_inward(stored):
    """Where a group stands, as the memory backend's."""
    acked = tuple(((inward(first),), (inward(last),)) for first, last in stored.acked)
    return GroupPosition(offset_of(stored.position), acked)


def each(change, mapping):
    """A mapping with its values changed."""
    return {log: change(value) for log, value in mapping.items()}


class Columns:
    def __init__(self, columns):
        self.inner = columns

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def coordinates(self):
        return [outward(offset) for (offset,) in self.inner.coordinates()]


class Listener(Proxy):
    def assigned(self, positions):
        self.inner.assigned(each(group_outward, positions))

    def revoked(self, logs):
        return each(group_inward, self.inner.revoked(logs))


class Stored(Proxy):
    def stored(self, log, coordinates, detail=()):
        self.inner.stored(log, outward(coordinates[0]), detail)


class Sparse(Mutant):
    """A sound backend: nothing may depend on dense ids."""

    class Connection(Proxy):
        def after(self, message_id):
            page, row = message_id.coordinates
            return Position(message_id.log, (page, row + 1))

    class Producer(Proxy):
        def send(self, sendings):
            self.inner.send([Stored(sending, self.mutant) for sending in sendings])

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                batches = self.inner.poll(most, timeout)
            except PositionLost as error:
                error.low = point(error.low)
                raise
            return [
                Batch(batch.log, point(batch.next_position), len(batch), Columns(batch._columns)) for batch in batches
            ]

        def seek(self, positions, timeout):
            self.inner.seek(each(offset_of, positions), timeout)

        def commit(self, positions, timeout):
            self.inner.commit(each(group_inward, positions), timeout)

    def open(self, connection, options, listener):
        start = options.start
        if isinstance(start, dict):
            options = attrs.evolve(options, start=each(offset_of, start))
        return super().open(connection, options, Listener(listener, self))

    def start(self, start, position):
        return point(position)

    def since(self, positions):
        return each(offset_of, positions)

    def marks(self, marks):
        return attrs.evolve(marks, low=point(marks.low), high=point(marks.high))

    def bounds(self, bounds):
        ids = (bounds.first_id, bounds.last_id)
        return Bounds(*[one and MessageId(one.log, outward(one.coordinates[0])) for one in ids])

    def administer(self, connection, action):
        if isinstance(action, Trim):
            action = Trim(each(offset_of, action.before))
        found = super().administer(connection, action)
        return each(group_outward, found) if isinstance(action, DescribeGroup) else found
