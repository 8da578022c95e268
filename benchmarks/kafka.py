"""The suite of Kafka: mqplug compared with confluent-kafka, same settings and fields, on a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import mqplug
from benchmarks._contests import Contest
from benchmarks._kafka_receiving import receiving_contests
from benchmarks._kafka_sending import SendLoad, produce_messages, sending_contests
from mqplug_devbrokers import KafkaServer

FILLED_TOPIC = "full"
SEND_SIZES, SEND_PARTITIONS = (128, 1024), (1, 4)


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    messages = 5_000 if quick else 200_000
    with KafkaServer() as server, mqplug.connect(server.url) as mq:
        mq.create_topic(FILLED_TOPIC)
        produce_messages(server.bootstrap, FILLED_TOPIC, messages)
        loads = [SendLoad(*each, messages // 4) for each in product(SEND_SIZES, SEND_PARTITIONS)]
        for load in loads:
            mq.create_topic(load.topic, partitions=load.partitions, exist_ok=True)
        yield [
            *receiving_contests(mq, server.bootstrap, FILLED_TOPIC, messages),
            *(each for load in loads for each in sending_contests(mq, server.bootstrap, load)),
        ]
