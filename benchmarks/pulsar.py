"""The suite of Pulsar: mqplug compared with pulsar-client, with the same settings and fields, on its own broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import pulsar as pulsar_client

from benchmarks._compiled_parts import measured_clients
from benchmarks._contests import Contest
from benchmarks._load import Load
from benchmarks._pulsar_java import JavaTools
from benchmarks._pulsar_receiving import receiving_contests, topic_of
from benchmarks._pulsar_sending import SendLoad, fill_topic, sending_contests
from mqplug_devbrokers import PulsarServer

SENT_MESSAGES = 50_000
READ_BATCHES = {128: 200, 1024: 60}
OPERATION_TIMEOUT_S = 30  # the first producer on a busy machine takes seconds


@contextmanager
def contests(*, quick: bool) -> Iterator[Sequence[Contest]]:
    """Yield the contests; the broker runs within the block."""
    with ExitStack() as stack:
        server = stack.enter_context(PulsarServer())
        clients = stack.enter_context(measured_clients(server.url, "mqplug_pulsar_native"))
        client = stack.enter_context(closing(_native_client(server)))
        java = JavaTools(server, quick=quick)
        if java.missing:
            print(f"Java's pulsar-perf is omitted: {java.missing}")
        sends = [SendLoad(size, 2_000 if quick else SENT_MESSAGES) for size in READ_BATCHES]
        for send in sends:
            clients.installed.create_topic(send.topic, partitions=1)
        reads = [Load(size, 1, 4 if quick else batches) for size, batches in READ_BATCHES.items()]
        for load in reads:
            clients.installed.create_topic(topic_of(load), partitions=1)
            fill_topic(client, topic_of(load), load)
        yield [
            *(each for load in sends for each in sending_contests(clients, client, load, java)),
            *(each for load in reads for each in receiving_contests(clients, client, load, java)),
        ]


def _native_client(server: PulsarServer) -> pulsar_client.Client:
    logger = pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error)
    return pulsar_client.Client(server.service_url, operation_timeout_seconds=OPERATION_TIMEOUT_S, logger=logger)
