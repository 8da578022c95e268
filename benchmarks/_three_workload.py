"""The workload of all three backends, with the same calls of mqplug: produce, consume, and latency."""

from __future__ import annotations

import statistics
import threading
import time
from struct import Struct
from uuid import uuid4

import attrs

import mqplug
from benchmarks._load import BATCH_MESSAGES, batch_values
from benchmarks._process_tree import tree_cpu_s

CHUNK_BYTES = 1 << 20  # the clock is read after each chunk
PACE_S = 0.004  # between two timed messages, so that none waits for another
UNTIMED_SENDS = 10
TIMEOUT_S = 60.0
_CLOCK = Struct("<d")


@attrs.frozen
class Workload:
    """Messages of one size in a number of partitions."""

    size: int
    partitions: int

    @property
    def size_name(self) -> str:
        """The size in words."""
        return f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KiB"

    @property
    def name(self) -> str:
        """The size and the number of partitions in words."""
        return f"{self.size_name}, {self.partitions} partition{'s' * (self.partitions > 1)}"


@attrs.frozen
class Effort:
    """How long a turn produces, and how many single messages it times."""

    produce_s: float
    timed_messages: int


@attrs.frozen
class Throughput:
    """The messages a step handled, its time, and the CPU time of all processes, including the broker."""

    messages: int
    wall_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Messages per second."""
        return self.messages / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU per message."""
        return self.cpu_s / self.messages * 1e6


@attrs.frozen
class Turn:
    """The measurements of one turn of a backend. Latency is from the call of ``send`` to the return of ``receive``."""

    produce: Throughput
    consume: Throughput
    latencies_s: list[float]


@attrs.frozen
class BackendResult:
    """All turns of one backend with one workload."""

    backend: str
    workload: Workload
    turns: list[Turn]

    @property
    def produce_per_s(self) -> float:
        """Messages produced per second: the median of the turns."""
        return statistics.median(turn.produce.per_s for turn in self.turns)

    @property
    def consume_per_s(self) -> float:
        """Messages consumed per second: the median of the turns."""
        return statistics.median(turn.consume.per_s for turn in self.turns)

    @property
    def produce_cpu_us(self) -> float:
        """Microseconds of CPU per produced message: the median of the turns."""
        return statistics.median(turn.produce.cpu_us for turn in self.turns)

    @property
    def consume_cpu_us(self) -> float:
        """Microseconds of CPU per consumed message: the median of the turns."""
        return statistics.median(turn.consume.cpu_us for turn in self.turns)

    def latency_ms(self, part: float) -> float:
        """Return a percentile of the latencies of all turns, in milliseconds."""
        ordered = sorted(latency for turn in self.turns for latency in turn.latencies_s)
        return ordered[int(part * (len(ordered) - 1))] * 1e3


def take_turn(mq: mqplug.Client, workload: Workload, effort: Effort) -> Turn:
    """Run the workload once, on a new topic."""
    topic = f"three-{uuid4().hex}"
    mq.create_topic(topic, partitions=workload.partitions)
    try:
        with mq.producer(topic) as out:
            out.send(b"first")
            produced = _produce(out, workload, effort)
            consumed = _consume(mq, topic, produced.messages)
            return Turn(produced, consumed, _latencies(mq, out, topic, workload, effort))
    finally:
        mq.delete_topic(topic)


def _produce(out: mqplug.Producer, workload: Workload, effort: Effort) -> Throughput:
    """Submit messages for some time, and wait until all are stored."""
    chunk = batch_values(workload.size)[: max(1, CHUNK_BYTES // workload.size)]
    count, cpu, begin = 0, tree_cpu_s(), time.perf_counter()
    while not count or time.perf_counter() < begin + effort.produce_s:
        for value in chunk:
            out.submit(value)
        count += len(chunk)
    out.flush()
    return Throughput(count, time.perf_counter() - begin, tree_cpu_s() - cpu)


def _consume(mq: mqplug.Client, topic: str, messages: int) -> Throughput:
    """Read all values in batches; the first message is not timed."""
    with mq.consumer(topic, start=mqplug.EARLIEST) as consumer:
        assert consumer.receive(TIMEOUT_S) is not None
        count, cpu, begin = 0, tree_cpu_s(), time.perf_counter()
        while count < messages:
            values = consumer.receive_many(BATCH_MESSAGES, TIMEOUT_S).values
            assert values
            count += len(values)
        return Throughput(count, time.perf_counter() - begin, tree_cpu_s() - cpu)


def _latencies(mq: mqplug.Client, out: mqplug.Producer, topic: str, workload: Workload, effort: Effort) -> list[float]:
    """Send messages with their time, to the partitions in turn, to a thread that blocks in ``receive``."""
    latencies: list[float] = []
    messages = UNTIMED_SENDS + effort.timed_messages
    padding = bytes(max(0, workload.size - _CLOCK.size))

    def receive() -> None:
        for _ in range(messages):
            message = consumer.receive(TIMEOUT_S)
            assert message is not None
            latencies.append(time.perf_counter() - _CLOCK.unpack_from(message.value or b"")[0])

    with mq.consumer(topic, start=mqplug.LATEST) as consumer:
        receiver = threading.Thread(target=receive)
        receiver.start()
        for number in range(messages):
            out.send(_CLOCK.pack(time.perf_counter()) + padding, partition=number % workload.partitions)
            time.sleep(PACE_S)
        receiver.join(TIMEOUT_S)
    return latencies[UNTIMED_SENDS:]
