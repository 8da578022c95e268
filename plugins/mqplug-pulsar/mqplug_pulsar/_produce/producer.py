"""The producer: one native producer for each partition, opened for its first message."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import mqplug
from mqplug.spi import Run, Sending
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._produce.deleted_topics import end_deleted
from mqplug_pulsar._produce.native_producers import open_native
from mqplug_pulsar._produce.partition_producer import PartitionProducer
from mqplug_pulsar._produce.reports import open_reports

LINGER_S = 0.002  # for which the core collects records
LATE_S = 0.002  # between two looks at reports that nothing announces
LOOK_S = 0.25  # between two looks for deleted topics


class PulsarProducer:
    """A producer that takes records for any topic of the connection."""

    def __init__(self, connection: PulsarConnection) -> None:
        self.linger_s = min(LINGER_S, connection.settings.batch_delay)
        self._connection = connection
        self._lanes: dict[tuple[str, int], PartitionProducer] = {}
        self._reports = open_reports(connection.settings)
        self._has_late = False
        self._next_look = 0.0
        self._look: Future[None] | None = None

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            lane = self._lane(sending.topic, sending.partition)
            lane.send(self._reports.record(sending, lane))

    def send_run(self, run: Run) -> None:
        lane = self._lane(run.topic, run.partition)
        lane.send(self._reports.run(run, lane))

    def pump(self, timeout: float) -> None:
        self._reports.wait(min(timeout, LATE_S) if self._has_late else timeout)
        lanes = tuple(self._lanes.values())
        self._has_late = sum(lane.settle_late() for lane in lanes) > 0
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_S
            self._look_for_deleted(lanes)

    def flush(self, timeout: float) -> None:
        """Do nothing: batches are sent after ``batch_delay``.

        The client's own flush waits for the broker. Its ``flush_async`` takes the client's lock without releasing
        Python's, while the client's thread holds that lock and waits for Python's: a deadlock.
        """

    def close(self, timeout: float) -> None:
        lanes = tuple(self._lanes.values())
        self._lanes.clear()
        with suppress(mqplug.Error):  # closes that the broker does not answer in time go on by themselves
            self._connection.calls.each({number: each.close for number, each in enumerate(lanes)}, timeout)

    def _lane(self, topic: str, partition: int) -> PartitionProducer:
        lane = self._lanes.get((topic, partition))
        if lane is None or lane.failed:
            log = self._connection.log(self._connection.names.canonical(topic), partition)
            lane = self._lanes[topic, partition] = PartitionProducer(log, self._reports.ring)
            self._connection.calls.start(partial(open_native, self._connection, log)).add_done_callback(lane.opened)
        return lane

    def _look_for_deleted(self, lanes: Sequence[PartitionProducer]) -> None:
        cut_off = [lane for lane in lanes if lane.is_cut_off]
        if cut_off and (self._look is None or self._look.done()):
            self._look = self._connection.calls.start(partial(end_deleted, self._connection, cut_off))
