"""The suite of a slow reader: its memory while far more messages are stored than it prefetches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import mqplug
from benchmarks._findings import BenchmarkFinding
from benchmarks._kafka_sending import fill_topic
from benchmarks._load import BATCH_MESSAGES, Load
from mqplug_devbrokers import KafkaServer

PREFETCH_MIB = 64.0  # the default of prefetch_bytes
MESSAGE_BYTES = 1024
_READER = [sys.executable, "-m", "benchmarks._kafka_slow_reader"]
_GIB_BYTES = 1 << 30


def findings(*, gib: float, quick: bool) -> Iterator[BenchmarkFinding]:
    """Yield the memory that a slow reader of one partition and of four adds."""
    batches = max(1, int(gib * _GIB_BYTES) // (MESSAGE_BYTES * BATCH_MESSAGES))
    with KafkaServer() as server, mqplug.connect(server.url) as mq:
        for partitions in (1, 4):
            topic = f"slow-{partitions}"
            mq.create_topic(topic, partitions=partitions)
            fill_topic(server.bootstrap, topic, Load(MESSAGE_BYTES, partitions, batches))
            done = subprocess.run([*_READER, server.url, topic], check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout)
            name = f"{gib:g} GiB in {partitions} partition{'s' * (partitions > 1)}"
            yield BenchmarkFinding(f"slow reader, {name}: messages", found["messages"], "")
            added = found["reading"] - found["before"]
            yield BenchmarkFinding(f"slow reader, {name}: memory added", added, "MiB", 2 * PREFETCH_MIB)
