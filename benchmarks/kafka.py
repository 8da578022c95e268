"""Kafka: mqplug beside confluent-kafka, with the same settings and the same fields read, on a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mqplug
from benchmarks._kafka_receiving import receiving
from benchmarks._kafka_sending import fill, sending
from benchmarks._paired import Contest
from mqplug_devbrokers import KafkaServer

FULL, SINK = "full", "sink"


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """What is measured, as long as the broker runs."""
    messages = 5_000 if quick else 200_000
    with KafkaServer() as server, mqplug.connect(server.url) as mq:
        for topic in (FULL, SINK):
            mq.create_topic(topic)
        fill(server.bootstrap, FULL, messages)
        yield [*receiving(mq, server.bootstrap, FULL, messages), *sending(mq, server.bootstrap, SINK, messages // 2)]
