"""Backends with odd ids, odd batches, odd times, or slow delivery."""

from __future__ import annotations

import random
import time

import attrs
from mutants.base import Mutant, Proxy
from mutants.members import TakingAgain

from mqplug.memory import _hooks
from mqplug.memory._numbering import Dense, Entries
from mqplug.memory._personality import FULL
from mqplug.spi import DescribeGroupMembers, ListGroups, unsupported
from mqplug_testing._memory_harness import _roll


def _leaving_gaps(step):
    def place(numbering, count):
        first, numbering._next = numbering._next, numbering._next + step * count
        return [(offset,) for offset in range(first, first + step * count, step)], [()] * count

    return place


def _like(**peculiarities):
    """Return a patch: memory stores as usual, with these peculiarities."""
    return (_hooks, "PERSONALITIES", {"full": attrs.evolve(FULL, **peculiarities)})


class SparseIds(Mutant):
    """Leaves out six of seven ids."""

    patches = ((Dense, "place", _leaving_gaps(7)),)


class IdsAMillionApart(Mutant):
    """Leaves out a million ids after each."""

    patches = ((Dense, "place", _leaving_gaps(1_000_000)),)


class IdsOfThreeNumbers(Mutant):
    """Has ids like Pulsar's, and removes only whole ledgers."""

    patches = (_like(numbering=Entries),)

    def capabilities(self, sound):
        return attrs.evolve(sound, count_exact=False, advance=False)

    def hooks(self, connect):
        return {**super().hooks(connect), "roll": _roll}


class Slow(Mutant):
    """Delivers stored messages after a while, and few of them at a time."""

    class Consumer(Proxy):
        calls = 0

        def poll(self, most, timeout):
            self.calls += 1
            if self.calls % 2:
                time.sleep(min(timeout, 0.005))
                self.inner.tend(timeout)
                return []
            return self.inner.poll(min(most, 50), timeout)


class Stalls(Mutant):
    """Returns late from the first polls that wait, as on a busy machine. Cases that measure time may fail."""

    class Consumer(Proxy):
        left = 4

        def poll(self, most, timeout):
            if self.left and timeout:
                self.left -= 1
                time.sleep(0.4)
            return self.inner.poll(most, timeout)


class BatchesOfAnySize(Mutant):
    """Delivers random numbers of messages at a time."""

    class Consumer(Proxy):
        luck = random.Random(7)

        def poll(self, most, timeout):
            return self.inner.poll(self.luck.randint(1, most), timeout)


class LittleAtATime(Mutant):
    """Fetches next to nothing ahead."""

    def open(self, connection, options, listener):
        return super().open(connection, attrs.evolve(options, prefetch_bytes=1), listener)


class TimesOfTheBroker(Mutant):
    """Dates a message by when it was stored, whatever timestamp its producer gave."""

    patches = (_like(publish_time=True),)

    def capabilities(self, sound):
        return attrs.evolve(sound, timestamps_producer=False)


class TellsNothing(Mutant):
    """Estimates counts, describes no groups, and counts no members."""

    def capabilities(self, sound):
        return attrs.evolve(sound, count_exact=False)

    def marks(self, marks):
        return attrs.evolve(marks, count=marks.count + 1 if marks.count else 0, exact=False)

    def administer(self, connection, action):
        if isinstance(action, DescribeGroupMembers):
            raise unsupported(action)
        found = super().administer(connection, action)
        return [attrs.evolve(each, members=None) for each in found] if isinstance(action, ListGroups) else found


class TakesAgain(Mutant):
    """Makes even an only member give up its partitions when nothing comes, and take them again, twice."""

    class Consumer(TakingAgain):
        left = 2


class TakesAllAgainWhenGrown(Mutant):
    """Makes members give up all their partitions when one is added, and take them again."""

    class Consumer(TakingAgain):
        left = 0
        known = frozenset()

        def poll(self, most, timeout):
            if self.seated:
                wanted = frozenset(self.inner._seat.wanted)
                topics = {log.topic for log in self.known}
                if any(log.topic in topics for log in wanted - self.known):
                    self.take_again(timeout)
                self.known = wanted
            return super().poll(most, timeout)


PECULIAR = [
    SparseIds, IdsAMillionApart, IdsOfThreeNumbers, Slow, BatchesOfAnySize, LittleAtATime, TimesOfTheBroker,
    TellsNothing, TakesAgain, TakesAllAgainWhenGrown,
]  # fmt: skip
