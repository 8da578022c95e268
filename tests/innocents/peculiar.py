"""Backends with odd ids, odd batches, odd times, or little haste."""

from __future__ import annotations

import random
import time

import attrs
from mutants.base import Mutant, Proxy
from mutants.members import TakingAgain

from mqplug import memory
from mqplug.memory._numbering import Dense, Entries
from mqplug.memory._personality import FULL
from mqplug.spi import DescribeGroupMembers, ListGroups, unsupported
from mqplug_testing._memory_harness import _roll


def _leave_gaps(numbering, count):
    step = 7
    first, numbering._next = numbering._next, numbering._next + step * count
    return [(offset,) for offset in range(first, first + step * count, step)], [()] * count


def _like(**peculiarities):
    """A patch: memory stores that are as usual, but for this."""
    return (memory, "PERSONALITIES", {"full": attrs.evolve(FULL, **peculiarities)})


class SparseIds(Mutant):
    """Six of seven ids do not exist."""

    patches = ((Dense, "place", _leave_gaps),)


class IdsOfThreeNumbers(Mutant):
    """Ids as Pulsar has them; what can be removed are whole ledgers."""

    patches = (_like(numbering=Entries),)

    def capabilities(self, sound):
        return attrs.evolve(sound, count_exact=False, advance=False)

    def hooks(self, connect):
        return {**super().hooks(connect), "roll": _roll}


class Slow(Mutant):
    """What is stored is delivered after a while, and little of it at a time."""

    class Consumer(Proxy):
        calls = 0

        def poll(self, most, timeout):
            self.calls += 1
            if self.calls % 2:
                time.sleep(min(timeout, 0.005))
                self.inner.tend(timeout)
                return []
            return self.inner.poll(min(most, 50), timeout)


class BatchesOfAnySize(Mutant):
    """How much comes at a time is a matter of luck."""

    class Consumer(Proxy):
        luck = random.Random(7)

        def poll(self, most, timeout):
            return self.inner.poll(self.luck.randint(1, most), timeout)


class LittleAtATime(Mutant):
    """Next to nothing is fetched ahead."""

    def open(self, connection, options, listener):
        return super().open(connection, attrs.evolve(options, prefetch_bytes=1), listener)


class TimesOfTheBroker(Mutant):
    """Time is when a message was stored, whatever its producer says."""

    patches = (_like(publish_time=True),)

    def capabilities(self, sound):
        return attrs.evolve(sound, timestamps_producer=False)


class TellsNothing(Mutant):
    """Counts are a guess, and groups are neither described nor are their members counted."""

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
    """A member gives up what it holds when nothing comes, also when it is alone, and takes it again; then it rests."""

    class Consumer(TakingAgain):
        left = 2


PECULIAR = [
    SparseIds, IdsOfThreeNumbers, Slow, BatchesOfAnySize, LittleAtATime, TimesOfTheBroker, TellsNothing, TakesAgain,
]  # fmt: skip
