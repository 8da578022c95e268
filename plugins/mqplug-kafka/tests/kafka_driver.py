"""Names, ports and messages for tests, and a consumer that calls the driver directly."""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from functools import partial

import driver_seam
import pytest

import mqplug_kafka

OLD = os.environ.get("MQPLUG_DEVBROKERS_KAFKA", "4").startswith("3.")
since_4 = pytest.mark.skipif(OLD, reason="the consumer protocol came with Kafka 4.0")

_numbers = itertools.count()

new_names = []
"""The names that the current test has used."""


def new_name():
    """Return a name that no other test uses."""
    new_names.append(f"t{os.getpid()}-{next(_numbers)}")
    return new_names[-1]


def seeds(by_day, count):
    """Return ``count`` seeds: the first ``by_day`` of them run by day, the others at night."""
    return [*range(by_day), *(pytest.param(each, marks=pytest.mark.night) for each in range(by_day, count))]


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
    """Return free loopback ports outside the ranges of outgoing connections and of other workers."""
    return list(itertools.islice(_free_ports, count))


def _is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_free_ports = filter(_is_free, random.sample(range(10_000 + 500 * _worker, 10_500 + 500 * _worker), 500))


def time_limit(server, milliseconds):
    """Return the options of a topic whose timestamps may be this far in the future."""
    older = server.version.startswith(("3.3.", "3.4.", "3.5."))
    return {f"message.timestamp.{'difference' if older else 'after'}.max.ms": str(milliseconds)}


Seam = partial(driver_seam.Seam, mqplug_kafka, prefetch_bytes=1 << 20)


def administer(mq, action):
    """Call the driver directly to carry out an administrative action."""
    return mqplug_kafka.mqplug_administer(mq._connection, action, 20)
