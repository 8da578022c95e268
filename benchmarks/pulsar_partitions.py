"""The suite of many partitions of Pulsar: the cost of a reader of 64, while it waits and while it reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import mqplug
from benchmarks._contests import process_cpu_s
from benchmarks._findings import BenchmarkFinding
from benchmarks._load import BATCH_MESSAGES, batch_values
from benchmarks._process_memory import resident_mib
from mqplug_devbrokers import PulsarServer

PARTITIONS = 64
MESSAGE_BYTES = 1024
IDLE_S = 10.0
READS = 3  # the best one counts
MAX_IDLE_PERCENT, MAX_ADDED_MIB, MAX_CPU_RATIO = 1.0, 64.0, 1.5
_GIB_BYTES = 1 << 30


def findings(*, gib: float, quick: bool) -> Iterator[BenchmarkFinding]:
    """Yield the threads, the memory and the idle CPU time of a reader, then the CPU time for each message."""
    batches = max(PARTITIONS, int(gib * _GIB_BYTES) // (MESSAGE_BYTES * BATCH_MESSAGES))
    with PulsarServer() as server, mqplug.connect(server.url) as mq:
        for partitions in (1, PARTITIONS):
            mq.create_topic(_topic(partitions), partitions=partitions)
            _fill(mq, partitions, batches)
        mq.create_topic("idle", partitions=PARTITIONS)
        with mq.consumer(_topic(1), start=mqplug.EARLIEST) as consumer:
            consumer.receive(30)  # warm up: the modules of the first reader do not count
        yield from _idle(mq, 1.0 if quick else IDLE_S)
        one, many = (min(_read(mq, each, batches) for _ in range(READS)) for each in (1, PARTITIONS))
        yield BenchmarkFinding("reading one partition: CPU for a message", one, "us")
        yield BenchmarkFinding(f"reading {PARTITIONS} partitions: CPU for a message", many, "us")
        yield BenchmarkFinding("ratio of the two", many / one, "", MAX_CPU_RATIO)


def _topic(partitions: int) -> str:
    return f"read-{partitions}"


def _fill(mq: mqplug.Client, partitions: int, batches: int) -> None:
    values = batch_values(MESSAGE_BYTES)
    with mq.producer(_topic(partitions)) as out:
        for batch in range(batches):
            out.send_many([mqplug.Record(value, partition=batch % partitions) for value in values])


def _idle(mq: mqplug.Client, seconds: float) -> Iterator[BenchmarkFinding]:
    threads, memory = _threads(), resident_mib()
    with mq.consumer("idle", start=mqplug.EARLIEST) as consumer:
        consumer.receive(1)
        name = f"idle reader of {PARTITIONS} partitions"
        yield BenchmarkFinding(f"{name}: threads added", _threads() - threads, "", PARTITIONS)
        yield BenchmarkFinding(f"{name}: memory added", resident_mib() - memory, "MiB", MAX_ADDED_MIB)
        waiting = threading.Thread(target=consumer.receive, args=(seconds,))
        wall, cpu = time.perf_counter(), process_cpu_s()
        waiting.start()
        waiting.join()
        used = (process_cpu_s() - cpu) / (time.perf_counter() - wall)
        yield BenchmarkFinding(f"{name}: CPU while it waits", 100 * used, "%", MAX_IDLE_PERCENT)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _read(mq: mqplug.Client, partitions: int, batches: int) -> float:
    """Return the microseconds of CPU for each message."""
    with mq.consumer(_topic(partitions), start=mqplug.EARLIEST) as consumer:
        count = len(consumer.receive_many(BATCH_MESSAGES, 30))
        first, cpu = count, process_cpu_s()
        while count < batches * BATCH_MESSAGES:
            count += len(consumer.receive_many(BATCH_MESSAGES, 30).values)
        return (process_cpu_s() - cpu) / (count - first) * 1e6
