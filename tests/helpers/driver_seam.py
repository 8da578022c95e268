"""A consumer of any plugin at the driver's seam, without the core above it."""

from __future__ import annotations

import time

import mqplug
from mqplug import spi


class Seam:
    """A consumer at the driver's seam, with its logs and the messages that it got."""

    def __init__(self, plugin, mq, topic, group=None, start=mqplug.EARLIEST, mode="ordered", *, prefetch_bytes):
        self.held, self.got = set(), {}
        logs = mq.partitions(topic)
        if group is None:
            start = plugin.mqplug_resolve_start(mq._connection, start, logs, 10)
        options = spi.ConsumerOptions(logs=logs, group=group, start=start, mode=mode, prefetch_bytes=prefetch_bytes)
        self.driver = plugin.mqplug_open_consumer(mq._connection, options, self, 10)

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
