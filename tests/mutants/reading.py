"""Consumers that are wrong in one place."""

from __future__ import annotations

import time

from mqplug import (
    PositionLost,
)
from mutants.base import COLUMNS, Mutant, Proxy, Reading, rebuilt


class DropsEveryTenth(Mutant):
    case = "ORD-01"

    class Consumer(Reading):
        def change(self, batch):
            rows = [row for row, (offset,) in enumerate(batch.coordinates) if offset % 10 != 9]
            return batch.take(rows, batch.next_position)


class SwapsNeighbours(Mutant):
    case = "ORD-06"

    class Consumer(Reading):
        def change(self, batch):
            rows = list(range(len(batch)))
            rows[:2] = rows[:2][::-1]
            return batch.take(rows, batch.next_position)


class RepeatsAtBatchEnds(Mutant):
    case = "ORD-07"

    class Consumer(Reading):
        last = None

        def change(self, batch):
            before, self.last = self.last, batch[-1:] if len(batch) else self.last
            if before is None or before.log is not batch.log or batch._columns.attempts():
                return batch
            return rebuilt(batch, **{name: [*getattr(before, name), *getattr(batch, name)] for name in COLUMNS})


class NoneBecomesEmpty(Mutant):
    case = "HP-02"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[value or b"" for value in batch.values])


class KeepsPrefetchAtSeek(Mutant):
    case = "SEEK-13"

    class Consumer(Proxy):
        ahead = ()

        def poll(self, most, timeout):
            now, self.ahead = self.ahead or self.inner.poll(5, timeout), self.inner.poll(5, 0)
            return now


class NeverWakes(Mutant):
    case = "CLS-03"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            end = time.monotonic() + 12
            while not (found := self.inner.poll(most, 0)) and time.monotonic() < end:
                time.sleep(0.01)
            return found


class LooksOnlyNowAndThen(Mutant):
    case = "CON-06"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            found = self.inner.poll(most, 0)
            time.sleep(0 if found else timeout)
            return found or self.inner.poll(most, 0)


class SkipsWhatWasTrimmed(Mutant):
    case = "WM-19"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except PositionLost as error:
                self.inner.seek({error.log: error.low}, 1)
                return self.inner.poll(most, timeout)


class OtherIdsThanSent(Mutant):
    case = "ID-08"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, coordinates=[(offset + 1,) for (offset,) in batch.coordinates])


class TakesItsTime(Mutant):
    case = "CON-05"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            time.sleep(2.5)
            return self.inner.poll(most, timeout)


class TellsLate(Mutant):
    """Delivers nothing in the first second and a half."""

    case = "ORD-12"

    class Consumer(Proxy):
        seen = None

        def poll(self, most, timeout):
            if self.seen is None:
                self.seen = time.monotonic()
            return self.inner.poll(most, timeout) if time.monotonic() > self.seen + 1.5 else time.sleep(timeout) or []


class SwallowsCtrlC(Mutant):
    case = "TO-08"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            try:
                return self.inner.poll(most, timeout)
            except KeyboardInterrupt:
                return []
