"""A transaction name, held by direct calls of the driver without the core."""

from __future__ import annotations

import time

import mqplug
import mqplug_kafka
from mqplug import spi


class Sent:
    """A record that keeps the outcomes set by the driver."""

    def __init__(self, topic, value, partition=0, headers=()):
        self.topic, self.value, self.partition, self.headers = topic, value, partition, headers
        self.key = self.timestamp = None
        self.outcomes = []

    def stored(self, log, coordinates, detail=()):
        self.outcomes.append((log.partition, *coordinates))

    def failed(self, error):
        self.outcomes.append(error)

    def unknown(self, error):
        self.outcomes.append(error)

    @property
    def outcome(self):
        """The record's only outcome."""
        (outcome,) = self.outcomes
        return outcome


class SentRun:
    """Records that are sent together."""

    headers = timestamps = keys = None
    partition = 0

    def __init__(self, topic, values):
        self.topic, self.values = topic, values
        self.size = sum(map(len, values))
        self.singles = [Sent(topic, value) for value in values]

    def __len__(self):
        return len(self.values)

    def arrow(self, names):
        """Return no Arrow columns."""
        return {}

    def sendings(self):
        """Return the single records."""
        return self.singles

    def stored(self, log, coordinates, details=None):
        for each, at in zip(self.singles, coordinates, strict=True):
            each.stored(log, at)

    def failed(self, error):
        for each in self.singles:
            each.failed(error)

    def unknown(self, error):
        for each in self.singles:
            each.unknown(error)


class Holder:
    """A driver that holds a transaction name until the end of the block."""

    def __init__(self, mq, name, timeout=30):
        self.connection = mq._connection
        self.driver = mqplug_kafka.mqplug_open_transactions(self.connection, spi.TransactionOptions(name=name), timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.close(10)

    def begin(self, topic=None, number=None, timeout=30):
        """Begin, with a mark if a number is given. Return whether that number or a higher one was already committed."""
        mark = None if number is None else spi.TransactionMark(topic, number)
        return self.driver.begin(mark, timeout) is not None

    def send(self, topic, *values):
        """Send records one by one."""
        sent = [Sent(topic, value) for value in values]
        self.driver.send(sent)
        return sent

    def send_run(self, topic, *values):
        """Send records together."""
        run = SentRun(topic, values)
        self.driver.send_run(run)
        return run.singles

    def commit(self, *moves, timeout=30):
        """Commit the transaction with these moves of groups."""
        self.driver.commit(moves, timeout)

    def deliver(self, seconds=30):
        """Pump the driver until the broker has all records."""
        end = time.monotonic() + seconds
        native = self.driver._client.producer.sender
        while len(native):
            assert time.monotonic() < end
            self.driver.pump(0.1)


def at(log, offset, *acked):
    """Return a group's position with acked ranges."""
    return spi.GroupPosition(mqplug.Position(log, (offset,)), tuple(((a,), (b,)) for a, b in acked))


def values(mq, topic):
    """Return the values of all committed messages."""
    return [message.value for message in mq.read(topic)]
