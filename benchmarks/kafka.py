"""The suite of Kafka: mqplug compared with confluent-kafka, same settings and fields, on a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mqplug
from benchmarks._contests import Contest
from benchmarks._kafka_receiving import receiving_contests
from benchmarks._kafka_sending import produce_messages, sending_contests
from mqplug_devbrokers import KafkaServer

FILLED_TOPIC, SINK_TOPIC = "full", "sink"


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    messages = 5_000 if quick else 200_000
    with KafkaServer() as server, mqplug.connect(server.url) as mq:
        for topic in (FILLED_TOPIC, SINK_TOPIC):
            mq.create_topic(topic)
        produce_messages(server.bootstrap, FILLED_TOPIC, messages)
        yield [
            *receiving_contests(mq, server.bootstrap, FILLED_TOPIC, messages),
            *sending_contests(mq, server.bootstrap, SINK_TOPIC, messages // 2),
        ]
