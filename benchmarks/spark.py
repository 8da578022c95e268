"""The suite of Spark: mqplug-spark over RocksMQ and Kafka, compared with spark-sql-kafka and with a constant source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks._contests import Contest
from benchmarks._load import Load
from benchmarks._spark_backends import PARTITIONS, constant_peer, running_kafka, running_rocksmq
from benchmarks._spark_reading import reading_contests
from benchmarks._spark_session import spark_session

BATCHES = {128: 4000, 1024: 1600}
"""How many thousand rows of each size the contests read."""
ROCKSMQ_AIMS: Mapping[int, Mapping[str, float]] = {128: {"constant": 0.6}, 1024: {"constant": 0.85}}
KAFKA_AIMS: Mapping[int, Mapping[str, float]] = {128: {"connector": 1.5}, 1024: {"connector": 1.7}}


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the backends and a Spark session run within the block."""
    with ExitStack() as stack:
        session = stack.enter_context(spark_session())
        rocksmq = stack.enter_context(running_rocksmq())
        kafka, connectors = stack.enter_context(running_kafka())
        found: list[Contest] = []
        for size, batches in BATCHES.items():
            load = Load(size, PARTITIONS, PARTITIONS if quick else batches)
            rivals = [constant_peer(load), *connectors]
            topic = kafka.fill(load)
            for backend, aims in ((rocksmq, ROCKSMQ_AIMS), (kafka, KAFKA_AIMS)):
                if backend is not kafka:
                    backend.fill(load)
                found += reading_contests(session, backend.name, topic, load, [backend.peer, *rivals], aims[size])
        yield found
