"""The producer: one native producer for each partition, opened for its first message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

import mqplug
from mqplug import Log
from mqplug.spi import Sending
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._produce.partition_producer import PartitionProducer

QUEUE_MESSAGES = 200_000  # above the core's own limit, so that this queue is never the one that is full
BATCH_DELAY_MS = 2  # a message waits this long for others to share its batch


class PulsarProducer:
    """A producer that takes records for any topic of the connection."""

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._lanes: dict[tuple[str, int], PartitionProducer] = {}
        self._something = Event()  # was settled since the last pump

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            lane = self._lanes.get((sending.topic, sending.partition))
            if lane is None or lane.failed:
                lane = self._open(sending.topic, sending.partition)
            lane.send(sending)

    def pump(self, timeout: float) -> None:
        self._something.wait(timeout)
        self._something.clear()

    def flush(self, timeout: float) -> None:
        """Do nothing: batches are sent after two milliseconds.

        The client's own flush waits for the broker. Its ``flush_async`` takes the client's lock without releasing
        Python's, while the client's thread holds that lock and waits for Python's: a deadlock.
        """

    def close(self, timeout: float) -> None:
        producers = [lane.producer for lane in self._lanes.values() if lane.producer is not None]
        self._lanes.clear()
        with suppress(mqplug.Error):  # closes that the broker does not answer in time go on by themselves
            self._connection.calls.each({number: each.close for number, each in enumerate(producers)}, timeout)

    def _open(self, topic: str, partition: int) -> PartitionProducer:
        log = self._connection.log(self._connection.names.canonical(topic), partition)
        lane = self._lanes[topic, partition] = PartitionProducer(log, self._on_settled)
        self._connection.calls.start(partial(self._create, log)).add_done_callback(lane.opened)
        return lane

    def _create(self, log: Log) -> Any:
        return self._connection.client.create_producer(
            self._connection.native_topic(log),
            max_pending_messages=QUEUE_MESSAGES,
            block_if_queue_full=False,
            batching_enabled=True,
            batching_max_publish_delay_ms=BATCH_DELAY_MS,
        )

    def _on_settled(self) -> None:
        if not self._something.is_set():
            self._something.set()
