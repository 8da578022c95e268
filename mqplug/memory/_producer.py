"""The memory backend's producer, which stores records in the caller's thread."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mqplug._model.errors import Error
from mqplug.memory._partition import Written
from mqplug.memory._store import Store
from mqplug.spi import Run, Sending


class MemoryProducer:
    """A producer that stores at once. Records sent together to one partition are one batch."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def send(self, sendings: Sequence[Sending]) -> None:
        with self._store.changed:
            for (topic, number), each in groupby(sendings, lambda sending: (sending.topic, sending.partition)):
                self._send_batch(topic, number, list(each))
            self._store.changed.notify_all()

    def _send_batch(self, topic: str, number: int, sendings: Sequence[Sending]) -> None:
        try:
            partition = self._store.topic(topic)[number]
        except Error as error:
            for sending in sendings:
                sending.failed(error)
            return
        places, details = partition.append(
            [sending.value for sending in sendings], [sending.key for sending in sendings],
            [sending.headers for sending in sendings], [sending.timestamp for sending in sendings],
        )  # fmt: skip
        for sending, place, detail in zip(sendings, places, details, strict=True):
            sending.stored(partition.log, place, detail)

    def send_run(self, run: Run) -> None:
        with self._store.changed:
            try:
                partition = self._store.topic(run.topic)[run.partition]
            except Error as error:
                run.failed(error)
                return
            run.stored(partition.log, *partition.append(*Written.of(run)))
            self._store.changed.notify_all()

    def pump(self, timeout: float) -> None:
        """Do nothing: every record is settled at once."""

    def flush(self, timeout: float) -> None:
        """Do nothing: every record is settled at once."""

    def close(self, timeout: float) -> None:
        """Do nothing: there is nothing to release."""
