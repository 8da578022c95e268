"""The producer, which hands records to the native client and takes its delivery reports."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import bad_time, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.delivery_reports import DeliveryReports, settle_failure

LINGER_S = 0.002


class KafkaProducer:
    """A producer that hands records to the native one, whose delivery reports settle them."""

    linger_s = LINGER_S

    def __init__(self, connection: KafkaConnection) -> None:
        self._shared_producers = connection.shared_producers
        self._shared = self._shared_producers.acquire()
        self._connection = connection
        self._future_max = connection.settings.future_max
        self._current_logs = CurrentLogs(connection)

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            self._prepare(sending.topic, sending.partition)
            self._produce(sending)

    def send_run(self, run: Run) -> None:
        """Hand records to the native client together, which takes a third of the time."""
        if run.headers is not None or run.timestamps is not None:
            self.send(run.sendings())
            return
        self._prepare(run.topic, run.partition)
        DeliveryReports(run, self._current_logs).produce(self._shared.native)

    def pump(self, timeout: float) -> None:
        """Serve delivery reports."""
        self._shared.pump(timeout)
        self._current_logs.settle(timeout)

    def flush(self, timeout: float) -> None:
        """Make the native client send what lingers there."""
        self._shared.hasten(timeout)

    def close(self, timeout: float) -> None:
        """Release the native producer."""
        self._shared_producers.release(self._shared, timeout)

    # handing over ------------------------------------------------------------------------------------------

    def _prepare(self, topic: str, partition: int) -> None:
        """Refresh the logs of a topic if they are due, and make the native client learn of the partition."""
        now = time.monotonic()
        if now >= self._current_logs.due.get(topic, 0.0):
            self._current_logs.refresh(topic, now)
        known = self._connection.known(topic)
        if known is not None:
            self._shared.learn(topic, partition, len(known.logs))

    def _produce(self, sending: Sending) -> None:
        """Hand over a record with headers or a timestamp, which goes alone."""
        moment = sending.timestamp
        if moment is not None and (why := self._bad_time(moment)):
            sending.failed(bad_time(moment, why))
            return
        headers: Any = list(sending.headers) if sending.headers else None
        try:
            self._shared.native.produce(
                sending.topic, sending.value, sending.key, sending.partition, partial(self._report, sending),
                timestamp=moment or 0, headers=headers,
            )  # fmt: skip
        except KafkaException as error:
            sending.failed(not_stored(error))  # refused by the client: it was never sent

    def _bad_time(self, moment: int) -> str | None:
        """Return why Kafka would not store this timestamp; None if it would."""
        if moment == 0:
            return "Kafka takes 0 to mean now"
        if moment > (time.time() + self._future_max) * 1000:
            return f"it is more than {self._future_max:g} s in the future, the setting future_max"
        return None

    def _report(self, sending: Sending, error: KafkaError | None, message: Message) -> None:
        offset, partition = message.offset(), message.partition()
        if error is not None or offset is None or partition is None or offset < 0:
            settle_failure(sending, error)
        else:
            self._current_logs.when_known(sending.topic, partial(self._stored, sending, partition, offset))

    def _stored(self, sending: Sending, partition: int, offset: int) -> None:
        sending.stored(self._current_logs.log(sending.topic, partition), (offset,))
