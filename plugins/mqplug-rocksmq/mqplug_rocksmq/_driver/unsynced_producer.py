"""Producers of a store of this process in which a send is done as soon as it is written.

Nothing is won by having such a write done by anybody else: a sender who waits writes in its own thread. What nobody
waits for is collected for a millisecond, so that it makes large pages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from mqplug import Error, OutcomeUnknown, PluginError
from mqplug.spi import Run, Sending
from mqplug_rocksmq._driver.send_units import MAX_COLLECTED_MESSAGES, BatchSend, SingleSends, sendings_by_partition
from mqplug_rocksmq._driver.translation import partition_log
from mqplug_rocksmq._store.store import Store

_LINGER_S: Final = 0.001


class UnsyncedProducer:
    """Sends to any topic of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writing = threading.Lock()  # held from the choice of messages until they are stored: none overtakes
        self._collected: deque[Sending] = deque()
        self._due = threading.Event()
        self._closed = False
        self._feeder: threading.Thread | None = None

    def store(self, sending: Sending) -> None:
        """Store a message, behind those that were collected."""
        with self._writing:
            if self._collected:
                self._collected.append(sending)
                self._write()
            else:
                self._append(sending.topic, sending.partition, SingleSends((sending,)))

    def send(self, sendings: Sequence[Sending]) -> None:
        self._collected.extend(sendings)
        if len(self._collected) >= MAX_COLLECTED_MESSAGES:
            self.flush(0)
        else:
            self._expect()

    def send_run(self, run: Run) -> None:
        """Store the columns of a batch as they are."""
        with self._writing:
            if self._collected:  # sent before
                self._write()
            self._append(run.topic, run.partition, BatchSend(run))

    def _expect(self) -> None:
        """Have what is collected go soon, whether or not anybody waits for it."""
        if self._feeder is None:
            self._feeder = threading.Thread(target=self._feed, name="mqplug-rocksmq-feed", daemon=True)
            self._feeder.start()
        if not self._due.is_set():  # which is cheaper than to set it
            self._due.set()

    def _feed(self) -> None:
        while not self._closed:
            self._due.wait()
            time.sleep(_LINGER_S)
            self._due.clear()
            self.flush(0)

    def _write(self) -> None:
        """Store what was collected. ``_writing`` is held."""
        sendings = [self._collected.popleft() for _ in range(len(self._collected))]
        try:
            for (topic, partition), together in sendings_by_partition(sendings):
                self._append(topic, partition, SingleSends(together))
        except BaseException:  # Ctrl-C: nobody else knows of these any more
            SingleSends(sendings).give_up(OutcomeUnknown("it was interrupted while it was stored"))
            raise

    def _append(self, topic: str, partition: int, parcel: SingleSends | BatchSend) -> None:
        try:
            described = self._store.topics.get(topic)
            log = partition_log(self._store.id, described, partition)
            first = self._store.append_bodies(described.logs[partition], parcel.bodies())
        except Error as error:
            parcel.give_up(error)
        except Exception as error:  # noqa: BLE001 - a sender that is never told would wait for ever
            parcel.give_up(PluginError(f"messages could not be encoded: {error!r}"))
        else:
            parcel.stored(log, first)

    def pump(self, timeout: float) -> None:
        self.flush(timeout)

    def flush(self, timeout: float) -> None:
        if self._collected or self._writing.locked():
            with self._writing:
                self._write()

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self._closed = True
        self._due.set()
        if self._feeder is not None:
            self._feeder.join(timeout)
