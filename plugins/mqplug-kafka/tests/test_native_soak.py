"""A compiled reader while its broker is killed repeatedly: no message lost or repeated, and constant memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from compiled_parts import compiled_part
from kafka_driver import new_name

import mqplug

compiled_part("mqplug_kafka_native")

SECONDS = float(os.environ.get("MQPLUG_HISTORY", "60"))
KILL_EVERY_S = min(30.0, SECONDS / 4)
WARM_SHARE = 0.4  # of the time, and after the first kill; then, memory should not grow
GROWTH_MIB = 24.0  # librdkafka keeps a dozen threads and some memory for brokers that are gone
SIZES = (0, 100, 1000, 20_000)

pytestmark = [pytest.mark.night, pytest.mark.timeout(600 + 2 * SECONDS)]


def memory_mib():
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


SENDER = """
import random, sys, time
import confluent_kafka
server, topic = sys.argv[1:]
chance, out = random.Random(1), confluent_kafka.Producer({"bootstrap.servers": server, "log_level": 0})
while True:
    for _ in range(200):
        headers = chance.choice([[], [], [("number", b"1")]])
        value = chance.randbytes(chance.choice((0, 100, 1000, 20_000)))
        out.produce(topic, value, partition=chance.randrange(4), headers=headers)
    out.flush()
    time.sleep(0.05)
"""
"""The sender: a separate process, so that its memory does not count."""


class Reading:
    """Reads all partitions without a gap, and sometimes seeks back or reopens its consumer."""

    def __init__(self, mq, topic):
        self._mq, self._topic = mq, topic
        self._chance = random.Random(2)
        self._behind = dict.fromkeys(mq.partitions(topic), 0)
        self.count = 0
        self._open()

    def _open(self):
        self._consumer = self._mq.consumer(self._topic, start=mqplug.EARLIEST, prefetch_bytes=4 << 20)
        for log, offset in self._behind.items():
            self._consumer.seek(mqplug.Position(log, (offset,)), timeout=60)

    def step(self):
        """Receive once, and fail if the batch does not continue where the last one ended."""
        batch = self._consumer.receive_many(1000, timeout=0.5)
        if not len(batch):
            return
        first = self._behind[batch.log]
        assert [offset for (offset,) in batch.coordinates] == list(range(first, first + len(batch)))
        assert [len(value) in SIZES for value in batch.values] == [True] * len(batch)
        self._behind[batch.log] += len(batch)
        self.count += len(batch)
        if self._chance.random() < 0.05:
            batch.to_arrow()
        if self._chance.random() < 0.01:
            back = max(0, first - 50)
            with suppress(mqplug.ConnectError):  # the broker is down, and the position has not changed
                self._consumer.seek(mqplug.Position(batch.log, (back,)), timeout=60)
                self._behind[batch.log] = back
        if self._chance.random() < 0.005:
            self.close()
            self._open()

    def close(self):
        """Close the consumer."""
        self._consumer.close()


@pytest.mark.disturbs
def test_it_reads_on_through_kills(kafka_server, mq):
    """Each message arrives once and in order, and memory grows by less than 24 MiB after the warm-up."""
    topic = new_name()
    mq.create_topic(topic, partitions=4)
    reading = Reading(mq, topic)
    began = killed = time.monotonic()
    warm = None
    sender = subprocess.Popen([sys.executable, "-c", SENDER, kafka_server.bootstrap, topic])
    try:
        while time.monotonic() - began < SECONDS:
            reading.step()
            if warm is None and time.monotonic() - began > WARM_SHARE * SECONDS:
                warm = memory_mib()
            if time.monotonic() - killed > KILL_EVERY_S:
                killed = time.monotonic()
                kafka_server.kill()
                kafka_server.start()
    finally:
        sender.kill()
        sender.wait()
    memory = memory_mib()
    reading.close()
    assert any(note.startswith("reads") and "mqplug-kafka-native" in note for note in mq._connection.notes())
    assert reading.count > 10 * SECONDS
    assert memory - warm < GROWTH_MIB
