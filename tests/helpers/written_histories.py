"""Histories written by hand, for the tests of the checker."""

from __future__ import annotations

from collections import Counter

from mqplug_testing.history import Anomaly, Event, Guarantee, History, Verdict, _events as did, check
from mqplug_testing.history._run.verdict import Example, RunCounts

STEP = 10  # microseconds between the beginnings of two calls, each of which takes one

EARLIEST = did.SeekTarget("earliest")
LATEST = did.SeekTarget("latest")


def before(place: int, partition: int = 0) -> did.SeekTarget:
    """Return the target at a message."""
    return did.SeekTarget("before", partition, (place,))


def last(count: int) -> did.SeekTarget:
    """Return the target at the last messages of this number."""
    return did.SeekTarget("last", number=count)


def from_time(moment: int) -> did.SeekTarget:
    """Return the target at a time."""
    return did.SeekTarget("time", number=moment)


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

    def disturb(self, how):
        return self.do(did.BackendDisturbed(how))

    def break_with(self, error):
        return self.do(did.UnexpectedError(error))

    def fail_to_receive(self, consumer):
        return self.do(did.ReceiveFailed(consumer), outcome="failed")

    def read_to_an_unknown_end(self):
        return self.do(did.AllMessagesRead("final"), outcome="unknown")

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


def verdict_of(history: History, *shown: Anomaly) -> Verdict:
    """Return the verdict on a history, with these anomalies as examples."""
    examples = [Example(each, history.events, ()) for each in shown]
    return Verdict(history, check(history), RunCounts.of(history), examples=examples)


def _place(place):
    return place if isinstance(place, tuple) else (place,)
