"""Producers and topics that are wrong in one place."""

from __future__ import annotations

import os
import threading
import time

import attrs

from mqplug import TopicNotFound
from mqplug._client.open_objects import AddedPartitions
from mqplug.spi import (
    CreateTopic,
    DescribeTopic,
    ListTopics,
    TopicInfo,
    hookimpl,
)
from mutants.base import Mutant, Proxy, Reading, Sender, Sending, rebuilt


class DropsAHeader(Mutant):
    case = "HP-05"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, headers=record.headers[1:])


class SortsHeaders(Mutant):
    case = "HP-05"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, headers=tuple(sorted(record.headers, key=str)))


class EmptyKeyIsNone(Mutant):
    case = "HP-03"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, key=record.key or None)


class IgnoresTimestamps(Mutant):
    case = "PRO-21"

    class Producer(Sending):
        def change(self, record):
            return attrs.evolve(record, timestamp=None)


class ReadsArrowBuffersLater(Mutant):
    """Keeps the values of Arrow data where the caller has them, and reads them when they are consumed."""

    case = "PRO-28"

    def __init__(self, name):
        super().__init__(name)
        self.later = {}

    class Producer(Proxy):
        def send_run(self, run):
            if arrays := run.arrow(("value",)):
                values = arrays["value"]
                self.mutant.later |= {value: (values, row) for row, value in enumerate(values.to_pylist())}
            self.inner.send_run(run)

    class Consumer(Reading):
        def change(self, batch):
            return rebuilt(batch, values=[self.now(each) for each in batch.values])

        def now(self, value):
            values, row = self.mutant.later.get(value, ([value], 0))
            return value if isinstance(values, list) else values[row].as_py()


class StoresTwice(Mutant):
    case = "ORD-04"

    class Producer(Sender):
        def send(self, sendings):
            self.inner.send(sendings)
            if len(sendings) == 1:
                self.inner.send(sendings)


class ClaimsToStore(Mutant):
    case = "PRO-10"

    class Producer(Sender):
        def send(self, sendings):
            partition = self.inner._store.topic(sendings[0].topic)[sendings[0].partition]
            if partition.high < (400,):
                self.inner.send(sendings)
            else:
                for sending in sendings:
                    sending.stored(partition.log, partition.high)


class NextPartition(Mutant):
    case = "KEY-01"

    class Producer(Sender):
        def send(self, sendings):
            for sending in sendings:
                count = len(self.inner._store.topic(sending.topic))
                sending.partition = (sending.partition + (sending.key is not None)) % count
            self.inner.send(sendings)


class MixesResults(Mutant):
    case = "PRO-05"

    class Producer(Sender):
        def send(self, sendings):
            recorded = [Recorded(each, self.mutant) for each in sendings]
            self.inner.send(recorded)
            for sending, other in zip(sendings, recorded[::-1], strict=True):
                sending.stored(*other.outcome)


class Recorded(Proxy):
    """A record on its way that keeps its outcome to itself."""

    def stored(self, *outcome):
        self.outcome = outcome


class StoresInReverse(Mutant):
    case = "ORD-08"

    class Producer(Sender):
        def send(self, sendings):
            self.inner.send(sendings[::-1])


class IdsStartAgain(Mutant):
    case = "ID-10"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        if not isinstance(action, CreateTopic | DescribeTopic):
            return found
        for partition in connection.store.topic(action.topic):
            log = partition.log
            partition.log = type(log)(log.backend, log.cluster, log.topic, log.partition, "same")
        return TopicInfo(found.name, tuple(each.log for each in connection.store.topic(action.topic)))


class PrefixesLeak(Mutant):
    case = "TOP-10"

    def administer(self, connection, action):
        if isinstance(action, DescribeTopic):
            like = [name for name in connection.store.names() if action.topic.startswith(name)]
            if like:
                return super().administer(connection, DescribeTopic(min(like)))
        return super().administer(connection, action)


class LeavesAThread(Mutant):
    case = "LIF-02"

    def open(self, connection, options, listener):
        threading.Thread(target=time.sleep, args=(4,), daemon=True).start()
        return super().open(connection, options, listener)


class KeepsAFileUntilCollected(Mutant):
    case = "LIF-02"

    class Consumer(Proxy):
        def __init__(self, inner, mutant):
            super().__init__(inner, mutant)
            self.itself, self.file = self, os.open(os.devnull, os.O_RDONLY)

        def __del__(self):
            os.close(self.file)


class LiesAboutTrim(Mutant):
    case = "WM-05"

    def administer(self, connection, action):
        return True if type(action).__name__ == "Trim" else super().administer(connection, action)


class ForgetsTheLastOfMany(Mutant):
    """Does not store the last message of a batch of the maximum size."""

    case = "PRO-07"

    class Producer(Sender):
        def send(self, sendings):
            if len(sendings) < 10_000:
                self.inner.send(sendings)
                return
            self.inner.send(sendings[:-1])
            partition = self.inner._store.topic(sendings[-1].topic)[sendings[-1].partition]
            sendings[-1].stored(partition.log, partition.high)


class CountsMore(Mutant):
    """Counts a message too many for each further topic in one request."""

    case = "WM-12"

    @hookimpl
    def mqplug_watermarks(self, connection, logs, since):
        found = connection.watermarks(logs, since or {})
        more = len({log.topic for log in logs}) - 1
        return {log: attrs.evolve(each, count=each.count + more) for log, each in found.items()}


class KeepsEverything(Mutant):
    case = "BIG-08"

    def administer(self, connection, action):
        if isinstance(action, CreateTopic):
            action = attrs.evolve(action, retention=None, retention_bytes=None)
        return super().administer(connection, action)


class BrokenByAMistake(Mutant):
    """Reports everything as missing after one request for a missing topic."""

    case = "ERR-10"
    broken = False

    def administer(self, connection, action):
        if self.broken:
            raise TopicNotFound("there is nothing any more")
        try:
            return super().administer(connection, action)
        except TopicNotFound:
            self.broken = True
            raise


class ListsTwice(Mutant):
    case = "TOP-05"

    def administer(self, connection, action):
        found = super().administer(connection, action)
        return found * 2 if isinstance(action, ListTopics) else found


class OnePartitionLess(Mutant):
    case = "TOP-11"

    def administer(self, connection, action):
        if isinstance(action, CreateTopic):
            action = attrs.evolve(action, partitions=max(1, action.partitions - 1))
        return super().administer(connection, action)


class DescribesFromItsCache(Mutant):
    """Describes a topic as it was at the connection's first request, or after its own last change."""

    case = "KEY-15"

    class Connection(Proxy):
        def __init__(self, inner, mutant):
            super().__init__(inner, mutant)
            self.described = {}

    def administer(self, connection, action):
        if isinstance(action, DescribeTopic):
            if action.topic not in connection.described:
                connection.described[action.topic] = super().administer(connection, action)
            return connection.described[action.topic]
        if hasattr(action, "topic"):
            connection.described.pop(action.topic, None)
        return super().administer(connection, action)


class NeverLooksForPartitions(Mutant):
    case = "KEY-15"
    patches = ((AddedPartitions, "work_in_background", lambda added_partitions: None),)


class SendsToNowhere(Mutant):
    """Reports messages to a deleted topic as stored."""

    case = "CC-07"

    class Producer(Sender):
        last = None

        def send(self, sendings):
            for sending in sendings:
                recorded = Recorded(sending, self.mutant)
                recorded.failed = lambda error: None
                self.inner.send([recorded])
                self.last = vars(recorded).get("outcome", self.last)
                sending.stored(*self.last)
