"""Backends that fail with large numbers: large messages, many messages, many topics, many calls at once."""

from __future__ import annotations

from mqplug._produce import producer_session
from mqplug.spi import Trim
from mutants.base import Mutant, Proxy, Reading, Sending, rebuilt


class CutsTheLargest(Mutant):
    case = "BIG-01"

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[value and value[:999_990] for value in batch.values])


class OnlyTheValueCounts(Mutant):
    case = "BIG-02"
    patches = ((producer_session, "size_of", lambda value, key, headers: len(value or b"")),)


class LosesOneInThousands(Mutant):
    case = "BIG-05"

    class Consumer(Reading):
        def change(self, batch):
            rows = [row for row, (offset,) in enumerate(batch.coordinates) if offset != 4321]
            return batch.take(rows, batch.next_position)


class SmallOnesFirst(Mutant):
    case = "BIG-06"

    class Producer(Sending):
        def send(self, sendings):
            self.inner.send(sorted(sendings, key=lambda sending: len(sending.value or b"")))


class Hoards(Mutant):
    case = "BIG-07"

    class Consumer(Reading):
        def __init__(self, inner, mutant):
            super().__init__(inner, mutant)
            self.kept = []

        def change(self, batch):
            self.kept += [bytes(bytearray(value or b"")) for value in batch.values]
            return batch


class ReadsSixteenTopics(Mutant):
    case = "TOP-14"

    class Consumer(Proxy):
        def poll(self, most, timeout):
            for log in list(self.inner._positions)[16:]:
                del self.inner._positions[log]
            return self.inner.poll(most, timeout)


class OtherValuesOnceTrimmed(Mutant):
    case = "CC-11"
    trimmed = False

    def administer(self, connection, action):
        self.trimmed = self.trimmed or isinstance(action, Trim)
        return super().administer(connection, action)

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=list(batch.values)[::-1]) if self.mutant.trimmed else batch


class PassesOverInACrowd(Mutant):
    case = "CC-12"

    class Consumer(Reading):
        def change(self, batch):
            crowded = len(self.mutant.consumers) > 3 and self.inner is self.mutant.consumers[3]
            return batch[:-1] if crowded and len(batch) > 1 else batch
