"""Backends that are wrong about their promises, about slow members, about full and damaged disks, and about copies."""

from __future__ import annotations

from contextlib import contextmanager

import attrs

from mqplug import Corrupt, OutcomeUnknown, StorageFull, Unsupported
from mqplug._consume.consumer_session import ConsumerSession
from mqplug.memory._numbering import Dense
from mqplug.memory._partition import Partition, StoredRows
from mqplug.spi import hookimpl
from mutants.base import Mutant, Proxy, Sender
from mutants.durability import Lasting


class DeclaresTransactions(Mutant):
    case = "LIF-13"

    @hookimpl
    def mqplug_open_transactions(self, connection, options):
        raise Unsupported("transactions")


def _leave_gaps(numbering, count):
    first, numbering._next = numbering._next, numbering._next + 3 * count
    return [(offset,) for offset in range(first, first + 3 * count, 3)], [()] * count


def _row_of(partition, place):
    """Return the row of exactly this place, or the end if there is none."""
    places = partition.rows.places
    return places.index(place) if place in places else len(places)


class FindsNothingInAGap(Mutant):
    """Leaves gaps between ids, as is legal, and finds no message after a position that lies in a gap."""

    case = "ORD-14"
    patches = ((Dense, "place", _leave_gaps), (Partition, "row", _row_of))


class NobodyPollsForTheBusy(Mutant):
    case = "GRP-18"
    patches = ((ConsumerSession, "work_in_background", lambda session: None),)


class Hardware(Lasting):
    """Nodes that may be lost, and a disk that can be full, be damaged, and be copied. This one is sound."""

    full = False
    damaged = frozenset()

    def capabilities(self, sound):
        return attrs.evolve(super().capabilities(sound), multi_node=True)

    def hooks(self, connect):
        self.connect = connect
        nodes = {"kill_node": self.lose_node, "start_node": self.come_up}
        disk = {"fill_disk": self.fill, "corrupt_tail": self.corrupt, "copy_store": self.copy}
        return {**super().hooks(connect), **nodes, **disk}

    def lose_node(self):
        pass

    def fill(self):
        self.full = True
        return lambda: setattr(self, "full", False)

    def refuse(self, sending):
        sending.failed(StorageFull("there is no room", fix="Remove something"))

    class Producer(Sender):
        def send(self, sendings):
            if self.mutant.full:
                for sending in sendings:
                    self.mutant.refuse(sending)
            else:
                self.inner.send(sendings)

    def corrupt(self, topic):
        self.damaged = {topic}
        return lambda: setattr(self, "damaged", frozenset())

    def serve(self, batches):
        """Return the batches, or raise if one is of a damaged topic."""
        if any(batch.log.topic in self.damaged and len(batch) for batch in batches):
            raise Corrupt("a message is damaged", fix="Restore a backup")
        return batches

    class Consumer(Proxy):
        def poll(self, most, timeout):
            return self.mutant.serve(self.inner.poll(most, timeout))

    @contextmanager
    def copy(self):
        """Yield a client of the copy, and undo its writes at the end."""
        names = [field.name for field in attrs.fields(StoredRows)]
        kept = [(rows, {name: list(getattr(rows, name)) for name in names}) for rows in self.rows()]
        with self.connect() as client:
            yield client
        for rows, columns in kept:
            for name, column in columns.items():
                getattr(rows, name)[:] = column


Hardware.sound = Hardware


class LosesWithItsNode(Hardware):
    case = "FLT-09"

    def lose_node(self):
        self.tear()


class IsNotSureThatItIsFull(Hardware):
    case = "ERR-11"

    def refuse(self, sending):
        sending.unknown(OutcomeUnknown("something went wrong"))


class FullDiskTakesMore(Hardware):
    case = "ERR-11"

    def refuse(self, sending):
        sending.stored(self.store.topic(sending.topic)[sending.partition].log, (10**6,))


class FullDiskIsADeadEnd(Hardware):
    """Refuses to trim or delete topics on a full disk, so that no room can be made."""

    case = "ERR-14"

    def administer(self, connection, action):
        if self.full:
            raise StorageFull("there is no room", fix="Remove something")
        return super().administer(connection, action)


class ServesTheDamaged(Hardware):
    case = "ERR-12"

    def serve(self, batches):
        return batches


class PassesOverTheDamaged(Hardware):
    case = "ERR-12"

    def serve(self, batches):
        return [batch[:-1] if batch.log.topic in self.damaged else batch for batch in batches]


class OneStoreForBoth(Hardware):
    """Stores writes to the copy in the original, too."""

    case = "FLT-11"

    @contextmanager
    def copy(self):
        with self.connect() as client:
            yield client


class CopiesHalf(Hardware):
    case = "FLT-11"

    @contextmanager
    def copy(self):
        with super().copy() as client:
            self.tear()
            yield client
