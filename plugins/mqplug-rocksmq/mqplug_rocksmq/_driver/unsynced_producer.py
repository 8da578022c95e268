"""Producers of a store of this process in which a send is done as soon as it is written.

A sender that waits writes in its own thread: another thread would gain nothing. Messages that no sender waits for are
collected for a moment, so that they share pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mqplug import Error, PluginError
from mqplug.spi import Run, SendBuffer, Sending
from mqplug_rocksmq._driver.send_units import MAX_COLLECTED_MESSAGES, BatchSend, SingleSends, sendings_by_partition
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._store.store import Store

_LINGER_S: Final = 0.001


class UnsyncedProducer:
    """Sends to any topic of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._buffer = SendBuffer(
            self._store_all,
            linger_s=_LINGER_S, max_records=MAX_COLLECTED_MESSAGES, thread_name="mqplug-rocksmq-linger",
        )  # fmt: skip
        self._collected, self._writing = self._buffer.collected, self._buffer.lock
        self.send = self._buffer.add

    def store(self, sending: Sending) -> None:
        """Store a message, behind those that were collected."""
        with self._writing:
            if self._collected:
                self._collected.append(sending)
                self._buffer.hand_over_locked()
            else:
                self._append(sending.topic, sending.partition, SingleSends((sending,)))

    def send_run(self, run: Run) -> None:
        """Store the columns of a batch as they are."""
        with self._writing:
            if self._collected:  # sent before
                self._buffer.hand_over_locked()
            self._append(run.topic, run.partition, BatchSend(run))

    def _store_all(self, sendings: Sequence[Sending]) -> None:
        for (topic, partition), together in sendings_by_partition(sendings):
            self._append(topic, partition, SingleSends(together))

    def _append(self, topic: str, partition: int, unit: SingleSends | BatchSend) -> None:
        try:
            described = self._store.topics.get(topic)
            log = partition_log(self._store.id, described, partition)
            first = self._store.append_bodies(described.logs[partition], unit.bodies())
        except Error as error:
            unit.give_up(error)
        except Exception as error:  # noqa: BLE001 - a sender that is never told would wait forever
            unit.give_up(PluginError(f"messages could not be encoded: {error!r}"))
        else:
            unit.stored(log, first)

    def pump(self, timeout: float) -> None:
        if self._collected or self._writing.locked():  # else there is nothing to wait for, not even a call
            self._buffer.flush()

    def flush(self, timeout: float) -> None:
        self._buffer.flush()

    def close(self, timeout: float) -> None:
        self._buffer.close(timeout)
