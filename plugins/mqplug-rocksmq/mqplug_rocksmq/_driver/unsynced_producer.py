"""Producers of a store of this process in which a send is done as soon as it is written.

A sender that waits writes in its own thread: another thread would gain nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mqplug import Error, PluginError
from mqplug.spi import Run, Sending
from mqplug_rocksmq._driver.send_units import LINGER_S, BatchSend, SingleSends, sendings_by_partition
from mqplug_rocksmq._driver.stopped_sends import StoppedSends
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._engine.errors import WritesStopped
from mqplug_rocksmq._store.store import Store


class UnsyncedProducer:
    """Sends to any topic of the store."""

    linger_s = LINGER_S

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writing = threading.Lock()  # so that offsets are reported in the order of the sends
        self._stopped = StoppedSends(store)

    def store(self, sending: Sending) -> None:
        """Store a message."""
        with self._writing:
            self._append(sending.topic, sending.partition, SingleSends((sending,)))

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._writing:
            for (topic, partition), together in sendings_by_partition(sendings):
                self._append(topic, partition, SingleSends(together))

    def send_run(self, run: Run) -> None:
        """Store the columns of a run as they are."""
        with self._writing:
            self._append(run.topic, run.partition, BatchSend(run))

    def _append(self, topic: str, partition: int, unit: SingleSends | BatchSend) -> None:
        self._stopped.do(lambda: self._store_unit(topic, partition, unit))

    def _store_unit(self, topic: str, partition: int, unit: SingleSends | BatchSend) -> None:
        try:
            described = self._store.topics.get(topic)
            log = partition_log(self._store.id, described, partition)
            first = self._store.append_bodies(described.logs[partition], unit.bodies())
        except WritesStopped:
            raise
        except Error as error:
            unit.give_up(error)
        except Exception as error:  # noqa: BLE001 - a sender that is never told would wait forever
            unit.give_up(PluginError(f"messages could not be encoded: {error!r}"))
        else:
            unit.stored(log, first)

    def pump(self, timeout: float) -> None:
        """Wait for a write under way in another thread, or for those that RocksDB does not take yet."""
        if not self._stopped.wait(timeout) and self._writing.acquire(timeout=timeout):
            self._writing.release()

    def flush(self, timeout: float) -> None:
        """Do nothing: what was sent is stored."""

    def close(self, timeout: float) -> None:
        """Do nothing: what was sent is stored."""
