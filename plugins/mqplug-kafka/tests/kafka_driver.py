"""Names, ports and messages for tests, and a consumer at the driver's seam."""

from __future__ import annotations

import itertools
import os
import random
import socket
import time

import mqplug
import mqplug_kafka
from mqplug import spi

_numbers = itertools.count()


def new_name():
    """Return a name that no other test has."""
    return f"t{os.getpid()}-{next(_numbers)}"


def fill(mq, topic, count, prefix="m"):
    """Send ``count`` messages and return their ids."""
    with mq.producer(topic) as out:
        return out.send_many([f"{prefix}{number}".encode() for number in range(count)])


def take(consumer, count, seconds=30):
    """Receive ``count`` messages and return them."""
    end = time.monotonic() + seconds
    taken = []
    while len(taken) < count and time.monotonic() < end:
        message = consumer.receive(timeout=1)
        if message is not None:
            taken.append(message)
    assert len(taken) == count
    return taken


def free_ports(count):
    """Return free loopback ports that no outgoing connection gets by chance."""
    free = filter(_is_free, random.sample(range(10000, 15000), 200))
    return list(itertools.islice(free, count))


def _is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Seam:
    """A consumer at the driver's seam, with the logs it holds and the messages it got."""

    def __init__(self, mq, topic, group=None, start=mqplug.EARLIEST, prefetch_bytes=1 << 20):
        self.held, self.got = set(), {}
        logs = mq.partitions(topic)
        if group is None:
            start = mqplug_kafka.mqplug_resolve_start(mq._connection, start, logs, 10)
        options = spi.ConsumerOptions(logs=logs, group=group, start=start, prefetch_bytes=prefetch_bytes)
        self.driver = mqplug_kafka.mqplug_open_consumer(mq._connection, options, self, 10)

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
    return mqplug_kafka.mqplug_administer(mq._connection, action, 20)
