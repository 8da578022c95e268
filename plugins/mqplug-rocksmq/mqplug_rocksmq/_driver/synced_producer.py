"""Producers whose sends wait: for a sync to disk, or for the answer of the owner process.

Messages of waiting senders are collected while others are in progress, and are stored together afterwards: so many
threads share a sync. For sends that need no sync see ``unsynced_producer``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mqplug import Error, Log, OutcomeUnknown, PluginError
from mqplug.spi import Run, Sending
from mqplug_rocksmq._driver.send_units import (
    LINGER_S,
    MAX_COLLECTED_MESSAGES,
    BatchSend,
    SingleSends,
    portions,
    sendings_by_partition,
)
from mqplug_rocksmq._driver.sinks import Sink


class SyncedProducer:
    """Sends to any topic of a store."""

    linger_s = LINGER_S

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writing = threading.RLock()  # held from the choice of messages until they are stored: none overtakes
        self._counting = threading.Lock()
        self._collected: list[Sending] = []
        self._in_progress = 0

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._counting:
            self._collected += sendings
            ready = len(self._collected) >= MAX_COLLECTED_MESSAGES or not self._in_progress
        if ready:
            self._write()

    def _write(self) -> None:
        with self._writing:
            with self._counting:
                sendings, self._collected = self._collected, []
                self._in_progress += 1
            for (topic, partition), together in sendings_by_partition(sendings):
                for portion in portions(together):
                    self._append(topic, partition, SingleSends(portion))
        self._arrived()

    def send_run(self, run: Run) -> None:
        """Store the columns of a batch as they are."""
        with self._writing:
            if self._collected:  # sent before
                self._write()
            self._append(run.topic, run.partition, BatchSend(run))

    def _append(self, topic: str, partition: int, unit: SingleSends | BatchSend) -> None:
        def settled(log: Log | None, first: int, error: Error | None, /) -> None:
            if log is not None and error is None:
                unit.stored(log, first)
            else:
                unit.give_up(error or OutcomeUnknown("the store reported neither an offset nor an error"))
            self._arrived()

        with self._counting:
            self._in_progress += 1
        try:
            self._sink.append(topic, partition, unit.bodies(), settled)
        except Error as error:
            unit.give_up(error)
            self._arrived()
        except Exception as error:  # noqa: BLE001 - a sender that gets no outcome would wait forever
            unit.give_up(PluginError(f"encoding messages for topic {topic!r} failed: {error!r}"))
            self._arrived()

    def _arrived(self) -> None:
        with self._counting:
            self._in_progress -= 1
            ready = not self._in_progress and bool(self._collected)
        self._sink.ring()
        if ready:
            self._write()

    def pump(self, timeout: float) -> None:
        if self._in_progress:
            self._sink.serve(timeout)

    def flush(self, timeout: float) -> None:
        if self._collected:
            self._write()

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self._sink.close(timeout)
