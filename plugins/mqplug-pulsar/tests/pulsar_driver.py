"""Messages for tests, and a consumer at the driver's seam."""

from __future__ import annotations

import time

import mqplug
import mqplug_pulsar
from mqplug import spi


def fill(mq, topic, count):
    """Send ``count`` messages as one batch and return their ids."""
    with mq.producer(topic) as out:
        return out.send_many([b"%d" % number for number in range(count)])


def take(member, count):
    """Receive ``count`` messages and return them."""
    taken = [member.receive(20) for _ in range(count)]
    assert None not in taken
    return taken


class Seam:
    """A consumer at the driver's seam, with the logs it holds and the messages it got."""

    def __init__(self, mq, topic, group=None, start=mqplug.EARLIEST, mode="ordered", prefetch_bytes=1 << 24):
        self.held, self.got = set(), {}
        logs = mq.partitions(topic)
        if group is None:
            start = mqplug_pulsar.mqplug_resolve_start(mq._connection, start, logs, 10)
        options = spi.ConsumerOptions(logs=logs, group=group, start=start, mode=mode, prefetch_bytes=prefetch_bytes)
        self.driver = mqplug_pulsar.mqplug_open_consumer(mq._connection, options, self, 10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.close(10)

    def assigned(self, positions):
        self.held |= set(positions)

    def revoked(self, logs):
        self.held -= set(logs)
        return {}

    def lost(self, logs):
        self.held -= set(logs)

    def poll(self, seconds=0.1, most=1000):
        """Poll once and return the number of messages."""
        batches = self.driver.poll(most, seconds)
        for batch in batches:
            self.got.setdefault(batch.log, []).extend(batch.values)
        return sum(map(len, batches))

    def until(self, condition, seconds=30):
        """Poll until the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"it did not happen in time: {self.held}, {self.got}"
            self.poll()

    def join(self, count):
        """Poll until ``count`` logs are held."""
        self.until(lambda: len(self.held) == count)


def administer(mq, action):
    """Carry out an action, at the driver's seam."""
    return mqplug_pulsar.mqplug_administer(mq._connection, action, 20)
