"""The suite of Kafka: mqplug compared with confluent-kafka, with the same settings and fields, on its own broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

from benchmarks._compiled_parts import measured_clients
from benchmarks._contests import Contest
from benchmarks._kafka_java import JavaTools
from benchmarks._kafka_receiving import receiving_contests, topic_of
from benchmarks._kafka_sending import SendLoad, fill_topic, sending_contests
from benchmarks._load import loads
from mqplug_devbrokers import KafkaServer

SEND_SIZES, SEND_PARTITIONS, SENT_MESSAGES = (128, 1024), (1, 4), 50_000


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    messages = 1_000 if quick else SENT_MESSAGES
    with KafkaServer() as server, measured_clients(server.url, "mqplug_kafka_native") as clients:
        java = JavaTools(server)
        if java.missing:
            print(f"Java's performance tools are omitted: {java.missing}")
        sends = [SendLoad(*each, messages) for each in product(SEND_SIZES, SEND_PARTITIONS)]
        for send in sends:
            clients.installed.create_topic(send.topic, partitions=send.partitions, exist_ok=True)
        reads = list(loads(quick=quick))
        for load in reads:
            clients.installed.create_topic(topic_of(load), partitions=load.partitions)
            fill_topic(server.bootstrap, topic_of(load), load)
        yield [
            *(each for load in reads for each in receiving_contests(clients, server.bootstrap, load, java)),
            *(each for load in sends for each in sending_contests(clients, server.bootstrap, load, java)),
        ]
