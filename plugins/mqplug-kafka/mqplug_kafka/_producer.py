"""Producers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from threading import Lock

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug import OutcomeUnknown
from mqplug.spi import ProducerOptions, Sending
from mqplug_kafka._connection import KafkaConnection
from mqplug_kafka._current import CurrentLogs
from mqplug_kafka._errors import PROVEN, bad_time, in_doubt, translate, unsent
from mqplug_kafka._native import logger
from mqplug_kafka._settings import producing

SLICE = 0.1


class KafkaProducer:
    """Hands records to the native producer, whose reports settle them."""

    def __init__(self, connection: KafkaConnection, options: ProducerOptions) -> None:
        native_options = producing(connection.settings, options.partitioner, options.queue_bytes)
        try:
            self._native = Producer({**native_options, "error_cb": connection.patient.reasons, "logger": logger})
        except KafkaException as error:
            raise translate(error, "the settings were refused") from error
        self._connection = connection
        self._future_max = connection.settings.future_max
        self._names = CurrentLogs(connection)
        self._nameless: deque[tuple[Sending, int, int]] = deque()  # stored in a topic that is being looked at
        self._waiting: deque[Sending] = deque()  # what did not fit into the native queue, in order
        self._lock = Lock()
        connection.producers.append(self._native)

    def send(self, sendings: Sequence[Sending]) -> None:
        """Queue them natively."""
        with self._lock:
            taken = 0 if self._waiting else self._produce(sendings)
            if taken < len(sendings):
                self._waiting.extend(islice(sendings, taken, None))

    def pump(self, timeout: float) -> None:
        """Serve reports."""
        if len(self._native):
            self._native.poll(min(timeout, SLICE))
        if self._waiting:
            with self._lock:
                for _ in range(self._produce(self._waiting)):
                    self._waiting.popleft()
        if self._nameless:
            self._name(timeout)

    def flush(self, timeout: float) -> None:
        """Wait for all reports; does not linger."""
        end = time.monotonic() + timeout
        while len(self) and (left := end - time.monotonic()) > 0:
            self._native.flush(min(left, SLICE))
            self.pump(0.01)

    def close(self, timeout: float) -> None:
        """Let go. What is not sent by then is given up, so that nothing of it is sent later."""
        self.flush(timeout)
        if len(self._native):
            self._native.purge()
            self._native.poll(0)
        self._connection.producers.remove(self._native)

    def __len__(self) -> int:
        return len(self._native) + len(self._waiting) + len(self._nameless)

    def _produce(self, sendings: Sequence[Sending]) -> int:
        """Queue natively as many as fit, each with its report's receiver; how many that were."""
        now, due, produce = time.monotonic(), self._names.due, self._native.produce
        for taken, sending in enumerate(sendings):
            record, topic = sending.record, sending.topic
            if now >= due.get(topic, 0.0):
                self._names.refresh(topic, now)
            if record.timestamp is not None and (why := self._bad_time(record.timestamp)):
                sending.failed(bad_time(record.timestamp, why))
                continue
            try:
                produce(
                    topic,
                    record.value,
                    record.key,
                    sending.partition,
                    on_delivery=partial(self._report, sending),
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers) if record.headers else None,
                )
            except BufferError:
                return taken
            except KafkaException as error:
                sending.failed(unsent(error))  # refused here: it was never on its way
        return len(sendings)

    def _bad_time(self, moment: int) -> str | None:
        """Why Kafka would not store this timestamp, if it would not."""
        if moment == 0:
            return "Kafka takes 0 for 'now'"
        if moment > (time.time() + self._future_max) * 1000:
            return "it lies too far in the future: see the setting future_max"
        return None

    def _report(self, sending: Sending, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if error.code() in PROVEN:
                sending.failed(unsent(error))
            else:
                sending.unknown(in_doubt(error))
            return
        offset, partition = message.offset(), message.partition()
        if offset is None or partition is None or offset < 0:
            sending.unknown(OutcomeUnknown("it is stored, but the broker did not say where"))
        elif self._nameless or self._names.pending:
            self._nameless.append((sending, partition, offset))
        else:
            sending.stored(self._names.log(sending.topic, partition), (offset,))

    def _name(self, timeout: float) -> None:
        """Settle what is stored, in order, as far as the names of the logs are known."""
        nameless = self._nameless
        while nameless and self._names.known(nameless[0][0].topic, timeout):
            try:
                sending, partition, offset = nameless.popleft()
            except IndexError:  # another thread was quicker
                return
            sending.stored(self._names.log(sending.topic, partition), (offset,))
