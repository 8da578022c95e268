"""The producer: one of the client's producers for each partition, opened for its first message."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import _pulsar

import mqplug
from mqplug.spi import ProducerDriver, Run, Sending
from mqplug_pulsar._cluster import compiled_part
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._produce.client_sender import ClientSender, Sender
from mqplug_pulsar._produce.compiled_sender import CompiledSender
from mqplug_pulsar._produce.partition_producer import PartitionProducer, open_client_producer
from mqplug_pulsar._settings import PulsarSettings

LINGER_S = 0.002  # how long the core collects records
LATE_S = 0.002  # between two looks at reports that come without a ring
LOOK_S = 0.25  # between two looks for deleted topics


class PulsarProducer(ProducerDriver):
    """A producer that takes records for any topic of the connection."""

    def __init__(self, connection: PulsarConnection) -> None:
        self.linger_s = min(LINGER_S, connection.settings.batch_delay)
        self._connection = connection
        self._lanes: dict[tuple[str, int], PartitionProducer] = {}
        self._sender = open_sender(connection.settings)
        self._batches = connection.settings.batching != "none"
        self._has_late = False
        self._next_look = 0.0
        self._look: Future[None] | None = None

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            self._lane(sending.topic, sending.partition).send(sending, self._sender.send_record)

    def send_run(self, run: Run) -> None:
        self._lane(run.topic, run.partition).send(run, self._sender.send_run)

    def pump(self, timeout: float) -> None:
        if timeout > 0:  # somebody waits
            self._hasten()
        self._sender.wait(min(timeout, LATE_S) if self._has_late else timeout)
        lanes = tuple(self._lanes.values())
        self._has_late = sum(lane.settle_late() for lane in lanes) > 0
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_S
            self._look_for_deleted(lanes)

    def flush(self, timeout: float) -> None:
        """Send batches now."""
        self._hasten()

    def _hasten(self) -> None:
        if self._batches:
            for lane in tuple(self._lanes.values()):
                lane.hasten(self._sender.flush)

    def close(self, timeout: float) -> None:
        lanes = tuple(self._lanes.values())
        self._lanes.clear()
        with suppress(mqplug.Error):  # closes that the broker does not answer in time continue by themselves
            self._connection.calls.each({number: each.close for number, each in enumerate(lanes)}, timeout)

    def _lane(self, topic: str, partition: int) -> PartitionProducer:
        lane = self._lanes.get((topic, partition))
        if lane is None or lane.failed:
            if lane is not None:
                self._connection.calls.start(lane.close)
            log = self._connection.log(self._connection.names.canonical(topic), partition)
            lane = self._lanes[topic, partition] = PartitionProducer(log, self._sender.ring)
            opening = self._connection.calls.start(partial(open_client_producer, self._connection, log))
            opening.add_done_callback(lane.opened)
        return lane

    def _look_for_deleted(self, lanes: Sequence[PartitionProducer]) -> None:
        cut_off = [lane for lane in lanes if lane.is_cut_off]
        if cut_off and (self._look is None or self._look.done()):
            self._look = self._connection.calls.start(partial(end_deleted, self._connection, cut_off))


def open_sender(settings: PulsarSettings) -> Sender:
    """Return the sender. Raise ``ConfigError`` if the settings require the compiled part and it cannot be used."""
    compiled = compiled_part.find(settings, "sends")
    return ClientSender() if compiled is None else CompiledSender(compiled, in_order=settings.batching != "by_key")


ANSWER_TIMEOUT_S = 5.0


def end_deleted(connection: PulsarConnection, lanes: Sequence[PartitionProducer]) -> None:
    """End the producers whose topics are gone.

    The client silently tries to reach the broker of a deleted topic forever. So where records wait for their outcome
    and the client's producer has no broker, this asks whether the topic still exists. While brokers are down or hand a
    topic over, the answer is yes, or there is none.
    """
    for lane in lanes:
        with suppress(mqplug.Error, _pulsar.PulsarException):  # no answer: the next look asks again
            if _is_gone(connection, lane):
                lane.end(partial(_still_gone, connection, lane))
                connection.forget(lane.log.topic)


def _still_gone(connection: PulsarConnection, lane: PartitionProducer) -> bool:
    with suppress(mqplug.Error, _pulsar.PulsarException):
        return _is_gone(connection, lane)
    return False


def _is_gone(connection: PulsarConnection, lane: PartitionProducer) -> bool:
    """Return whether no topic holds this log any more. Raise if no broker answers."""
    full = connection.names.full(lane.log.topic)
    try:
        topics = connection.client.get_topic_partitions(full)
        if topics == [full] and connection.admin is not None:
            connection.admin.stats(full, ANSWER_TIMEOUT_S)  # with automatic creation a broker finds every name
    except (_pulsar.TopicNotFound, mqplug.TopicNotFound):
        return True
    return lane.native_topic not in topics
