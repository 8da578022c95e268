"""The suite of Spark: mqplug-spark over RocksMQ and Kafka, compared with spark-sql-kafka and with a constant source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._contests import Contest
from benchmarks._load import Load
from benchmarks._spark_backends import PARTITIONS, constant_peer, running_kafka, running_rocksmq
from benchmarks._spark_reading import reading_contests
from benchmarks._spark_session import spark_session
from benchmarks._spark_streaming import available_now_contest, latency_contest
from benchmarks._spark_writing import parquet_of, writing_contest

READ_BATCHES = {128: 4000, 1024: 1600}
"""The number of thousand rows of each size that the contests read."""
WRITTEN_BATCHES = {128: 1000, 1024: 400}
PACED_MESSAGES = 200

ROCKSMQ_AIMS: Mapping[int, Mapping[str, float]] = {128: {"constant": 0.6}, 1024: {"constant": 0.85}}
KAFKA_AIMS: Mapping[int, Mapping[str, float]] = {128: {"connector": 1.5}, 1024: {"connector": 1.7}}
KAFKA_AIMS_WITH_PART: Mapping[int, Mapping[str, float]] = {
    size: {"connector": 2.0, "tuned": 1.0} for size in KAFKA_AIMS
}


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the backends and a Spark session run within the block."""
    with ExitStack() as stack:
        session = stack.enter_context(spark_session())
        rocksmq = stack.enter_context(running_rocksmq())
        kafka, connectors = stack.enter_context(running_kafka())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-rows-")))
        kafka_aims = KAFKA_AIMS_WITH_PART if find_spec("mqplug_kafka_native") else KAFKA_AIMS
        backends = ((rocksmq, ROCKSMQ_AIMS), (kafka, kafka_aims))
        found: list[Contest] = []
        for size in READ_BATCHES:
            read, written = (Load(size, PARTITIONS, PARTITIONS if quick else batches[size]) for batches in
                             (READ_BATCHES, WRITTEN_BATCHES))  # fmt: skip
            rows = parquet_of(session, written, folder)
            for backend, aims in backends:
                name, peers = backend.name, [backend.peer, *connectors]
                topic = backend.fill(read)
                found += reading_contests(session, name, topic, read, [*peers, constant_peer(read)], aims[size])
                found.append(available_now_contest(session, name, topic, read, peers))
                clients = {backend.peer: backend.client, connectors[0]: kafka.client}
                found.append(writing_contest(session, name, rows, written, clients))
        for backend, _ in backends:
            clients = {backend.peer: backend.client, connectors[0]: kafka.client}
            found.append(latency_contest(session, backend.name, clients, 10 if quick else PACED_MESSAGES))
        yield found
