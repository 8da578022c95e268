"""Histories written by hand, for the tests of the checker."""

from __future__ import annotations

from collections import Counter

from mqplug_testing.history import Event, Guarantee, History, _events as did

STEP = 10  # microseconds between the beginnings of two calls, each of which takes one

EARLIEST = did.SeekTarget("earliest")
LATEST = did.SeekTarget("latest")


def before(place: int) -> did.SeekTarget:
    """Return the target at a message."""
    return did.SeekTarget("before", 0, (place,))


def after(place: int) -> did.SeekTarget:
    """Return the target right after a message."""
    return did.SeekTarget("after", 0, (place,))


class Story:
    """A history that is written one call after the other. Places are numbers, of partition 0 by default."""

    def __init__(self, **guarantee) -> None:
        self._guarantee = Guarantee(**guarantee)
        self._events: list[Event] = []
        self._numbers: Counter[str] = Counter()

    @property
    def history(self) -> History:
        return History(tuple(self._events), self._guarantee, "by hand")

    @property
    def now(self) -> int:
        return len(self._events) * STEP

    def do(self, action, *, outcome="ok", since=None, until=None):
        """Add one call. ``since`` and ``until`` are its beginning and end, if it overlapped others."""
        began = self.now if since is None else since
        ended = self.now + 1 if until is None else until
        self._events.append(Event(len(self._events), "somebody", began, ended, action, outcome))
        return self

    def send(self, value, place=None, *, producer="p", partition=0, **when):
        number = self._numbers[producer]
        self._numbers[producer] += 1
        told = None if place is None else _place(place)
        return self.do(did.RecordSent(producer, number, value, partition, told), **when)

    def open(self, consumer, group=None, start=EARLIEST, mode="ordered"):
        return self.do(did.ConsumerOpened(consumer, group, mode, start))

    def get(self, consumer, value, place, *, partition=0, log_time=0, **when):
        return self.do(did.MessageReceived(consumer, partition, _place(place), value, 1, log_time), **when)

    def seek(self, consumer, to, *landed, missing="error", **when):
        return self.do(did.ConsumerSought(consumer, to, missing, tuple((0, _place(each)) for each in landed)), **when)

    def assign(self, consumer, *partitions):
        return self.do(did.PartitionsAssigned(consumer, partitions or (0,)))

    def revoke(self, consumer, *partitions):
        return self.do(did.PartitionsRevoked(consumer, partitions or (0,)))

    def ack(self, consumer, place, *, through=False):
        return self.do(did.MessageAcked(consumer, 0, _place(place), through))

    def nack(self, consumer, place):
        return self.do(did.MessageNacked(consumer, 0, _place(place)))

    def commit(self, consumer, **when):
        return self.do(did.AcksCommitted(consumer), **when)

    def leave(self, consumer, **when):
        return self.do(did.ConsumerClosed(consumer), **when)

    def trim(self, place):
        return self.do(did.MessagesTrimmed(0, _place(place)))

    def marks(self, low, high, **when):
        return self.do(did.WatermarksRead(((0, _place(low), _place(high)),)), **when)

    def stands(self, group, place, **when):
        return self.do(did.PositionsRead(group, ((0, _place(place)),)), **when)

    def lag(self, group, count):
        return self.do(did.LagRead(group, ((0, count),)))

    def final(self, **places):
        """Read the whole topic, which has these messages."""
        self.open("final")
        for value, place in places.items():
            self.get("final", value, place)
        return self.do(did.AllMessagesRead("final"))

    def drain(self, group, **places):
        """Drain the group, which gets these messages."""
        self.open("drain", group).assign("drain")
        for value, place in places.items():
            self.get("drain", value, place)
        return self.do(did.GroupDrained("drain", group))

    def sent(self, **places):
        """Send all of these, one after the other, to these places."""
        for value, place in places.items():
            self.send(value, place)
        return self


def _place(place):
    return place if isinstance(place, tuple) else (place,)
