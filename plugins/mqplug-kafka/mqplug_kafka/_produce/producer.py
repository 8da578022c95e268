"""The producer, which hands single records to the native client together: that takes a third of the time.

They are collected until there are ``MAX_COLLECTED_RECORDS``, until a sender waits, or for ``LINGER_S``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from mqplug import Error, Log
from mqplug.spi import Numbers, Run, SendBuffer, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import bad_time, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.delivery_reports import DeliveryReports, settle_failure

MAX_COLLECTED_RECORDS = 500
LINGER_S = 0.002


class SingleRecords:
    """Records of one topic and partition that were sent one by one."""

    __slots__ = ("_sendings", "keys", "partition", "topic", "values")

    def __init__(self, sendings: Sequence[Sending]) -> None:
        self._sendings = sendings
        self.topic = sendings[0].topic
        self.partition = sendings[0].partition
        self.values: Sequence[bytes | None] = [sending.value for sending in sendings]
        keys = [sending.key for sending in sendings]
        self.keys: Sequence[bytes | None] | None = None if keys.count(None) == len(keys) else keys

    def __len__(self) -> int:
        return len(self._sendings)

    def sendings(self) -> Sequence[Sending]:
        return self._sendings

    def stored(self, log: Log, coordinates: Sequence[Numbers]) -> None:
        for sending, place in zip(self._sendings, coordinates, strict=True):
            sending.stored(log, place)

    def failed(self, error: Error) -> None:
        for sending in self._sendings:
            sending.failed(error)


class KafkaProducer:
    """A producer that hands records to the native one, whose delivery reports settle them."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._shared_producers = connection.shared_producers
        self._shared = self._shared_producers.acquire()
        self._connection = connection
        self._future_max = connection.settings.future_max
        self._current_logs = CurrentLogs(connection)
        self._buffer = SendBuffer(
            self._produce_all, linger_s=LINGER_S, max_records=MAX_COLLECTED_RECORDS, thread_name="mqplug-kafka-linger"
        )
        self.send = self._buffer.add

    def send_run(self, run: Run) -> None:
        """Hand over the collected records, then the run."""
        if run.headers is not None or run.timestamps is not None:
            self._buffer.collected.extend(run.sendings())
            self._buffer.flush()
            return
        with self._buffer.lock:
            self._buffer.hand_over_locked()
            self._prepare(run.topic, run.partition)
            DeliveryReports(run, self._current_logs).produce(self._shared.native)

    def pump(self, timeout: float) -> None:
        """Serve delivery reports."""
        if self._buffer.collected:
            self._buffer.flush()
        self._shared.pump(timeout)
        self._current_logs.settle(timeout)

    def flush(self, timeout: float) -> None:
        """Hand over the collected records, and make the native client send what lingers there."""
        self._buffer.flush()
        self._shared.hasten(timeout)

    def close(self, timeout: float) -> None:
        """Hand over the collected records, and release the native producer."""
        self._buffer.close(timeout)
        self._shared_producers.release(self._shared, timeout)

    # handing over ------------------------------------------------------------------------------------------

    def _produce_all(self, sendings: Sequence[Sending]) -> None:
        for (topic, partition, headers, timestamp), group in groupby(sendings, _alike):
            self._prepare(topic, partition)
            if not headers and timestamp is None:
                DeliveryReports(SingleRecords(list(group)), self._current_logs).produce(self._shared.native)
            else:
                for sending in group:
                    self._produce(sending)

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


_alike = attrgetter("topic", "partition", "headers", "timestamp")
"""The fields in which records must agree to go together."""
