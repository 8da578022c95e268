"""The producer: hands records to the client topic by topic, in order.

While records that were refused with their batch wait to be sent again, the later records of their topic are held.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, RLock
from typing import Any

from mqplug import Closed, Error, InvalidRecord, OutcomeUnknown
from mqplug.spi import ProducerDriver, Run, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import bad_time
from mqplug_kafka._cluster.shared_producer import ProducersBySize, SharedProducer
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.outcomes import RecordOutcome, Refused, RunOutcome
from mqplug_kafka._produce.refused_batches import NEVER, RefusedBatches

LINGER_S = 0.002
PREPARE_EVERY_S = 0.25  # less than the second after which topics are described again


class KafkaProducer(ProducerDriver):
    """A producer that hands records to the client's producers, whose delivery reports settle them."""

    linger_s = LINGER_S

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self.collecting = connection.compiled.module if connection.compiled.usable("sends") else None
        self._producers = ProducersBySize(connection.shared_producers)
        self._current_logs = CurrentLogs(connection)
        self._topics: dict[str, TopicSends] = {}
        self._opening = Lock()

    def send(self, sendings: Sequence[Sending]) -> None:
        """Hand records to the client one by one."""
        for sending in sendings:
            (self._topics.get(sending.topic) or self._sends_to(sending.topic)).send(sending)

    def send_run(self, run: Run) -> None:
        """Hand records to the client together."""
        self._sends_to(run.topic).send_run(run)

    def pump(self, timeout: float) -> None:
        """Serve delivery reports, and continue with held or refused records."""
        self._producers.pump(timeout)
        self._current_logs.settle(timeout)
        for sends in tuple(self._topics.values()):
            if sends.holds:
                sends.retry(timeout)

    def flush(self, timeout: float) -> None:
        """Make the client send its lingering records."""
        self._producers.flush(timeout)

    def close(self, timeout: float) -> None:
        """Release the client's producers."""
        for sends in self._topics.values():
            sends.close()
        self._producers.release(timeout)

    def _sends_to(self, topic: str) -> TopicSends:
        found = self._topics.get(topic)
        if found is None:
            with self._opening:
                found = self._topics.get(topic)
                if found is None:
                    found = TopicSends(topic, self._connection, self._current_logs, self._producers)
                    self._topics[topic] = found
        return found


class TopicSends:
    """The records of one producer for one topic."""

    def __init__(
        self, topic: str, connection: KafkaConnection, current_logs: CurrentLogs, producers: ProducersBySize
    ) -> None:
        self._topic = topic
        self._limits = connection.limits
        self._future_max = connection.settings.future_max
        self._current_logs = current_logs
        self._producers = producers
        self._producer = producers.largest
        self._lock = RLock()
        self._prepared: set[int] = set()  # the partitions that the client knows
        self._prepared_for: SharedProducer | None = None
        self._prepared_until = 0.0
        self._last = 0  # the number of the last hand-over
        self._in_flight: set[int] = set()  # the numbers of the hand-overs without an outcome
        self._refused = RefusedBatches(topic, connection.limits, producers)
        self._held: deque[tuple[Run | Sending, Callable[[Any], None]]] = deque()
        self.holds = not self._limits.is_known(topic)
        """Whether records are held. Then ``retry`` must be called."""
        self._asked = self.holds
        if self.holds:
            self._limits.ask(topic)
            current_logs.prepare(self._producer, topic, 0)  # connects while it waits for the limits
        else:
            self._producer = producers.of(self._limits.of(topic).batch_bytes)

    # handing over ------------------------------------------------------------------------------------------

    def send(self, sending: Sending) -> None:
        """Hand a record to the client, or hold it."""
        with self._lock:
            if self._producer.outdated:
                self._renew()
            if self.holds:
                self._held.append((sending, self._send))
            else:
                self._send(sending)

    def send_run(self, run: Run) -> None:
        """Hand a run to the client, or hold it."""
        with self._lock:
            if self._producer.outdated:
                self._renew()
            if self.holds:
                self._held.append((run, self._send_run))
            else:
                self._send_run(run)

    def _renew(self) -> None:
        """Use a client with the renewed certificates, as soon as the former one has reported on all records."""
        if self._in_flight or self.holds:
            self.holds = True
        else:
            self._producer = self._producers.of(self._limits.of(self._topic).batch_bytes)

    def _send(self, sending: Sending, producer: SharedProducer | None = None) -> None:
        producer = producer or self._producer
        if sending.headers or sending.timestamp is not None:
            error = unstorable(sending, self._future_max)
            if error is not None:
                sending.failed(error)
                return
        if (
            sending.partition not in self._prepared
            or time.monotonic() >= self._prepared_until
            or producer is not self._prepared_for
        ):
            self._prepare(producer, sending.partition)
        self._last = number = self._last + 1
        self._in_flight.add(number)
        try:
            RecordOutcome(sending, self._current_logs, self, number, producer.batch_bytes).hand_to(producer.sender)
        except BaseException:
            self._given_up(number)
            raise

    def _send_run(self, run: Run) -> None:
        self._prepare(self._producer, run.partition)
        self._last = number = self._last + 1
        self._in_flight.add(number)
        outcome = RunOutcome(run, self._current_logs, self, number, self._producer.batch_bytes)
        try:
            taken = outcome.hand_to(self._producer.sender, self._future_max)
        except BaseException:
            self._given_up(number)
            raise
        if not taken:
            self._in_flight.discard(number)
            for each in run.sendings():
                self._send(each)

    def _prepare(self, producer: SharedProducer, partition: int) -> None:
        """Describe the topic again if due, and make the client learn of the partition."""
        now = time.monotonic()
        if producer is not self._prepared_for or now >= self._prepared_until:
            self._prepared_for, self._prepared_until = producer, now + PREPARE_EVERY_S
            self._prepared.clear()
        self._current_logs.prepare(producer, self._topic, partition)
        self._prepared.add(partition)

    # outcomes ----------------------------------------------------------------------------------------------

    def refused_one(self) -> None:
        """As ``SendsAgain.refused_one``."""
        self.holds = True

    def reported(self, number: int, stored: Mapping[int, int], refused: Sequence[Refused]) -> None:
        """As ``SendsAgain.reported``."""
        with self._lock:
            last = self._refused.last_stored
            for partition, row in stored.items():
                last[partition] = max(last.get(partition, NEVER), (number, row))
            self._refused.records.extend(refused)
            self._in_flight.discard(number)

    def _given_up(self, number: int) -> None:
        """Forget a hand-over that failed midway. Its records may be stored, so no earlier record is sent again."""
        self._refused.in_doubt = (number, 0)
        self._in_flight.discard(number)

    # sending again -----------------------------------------------------------------------------------------

    def retry(self, timeout: float) -> None:
        """Once nothing is in flight, send refused records again, or hand over held records."""
        with self._lock:
            if self._in_flight or not self.holds:
                return
            if self._refused.records and not self._asked:
                self._limits.ask(self._topic)
                self._asked = True
        if self._asked and not self._limits.await_answer(self._topic, timeout):
            return
        with self._lock:
            if self._in_flight or not self.holds:  # another thread was faster
                return
            self._asked = False
            self._refused.send_again(self._send)
            if not self._in_flight:
                self._release()

    def _release(self) -> None:
        """Hand over the held records."""
        self._producer = self._producers.of(self._limits.of(self._topic).batch_bytes)
        self.holds = False
        while self._held:
            records, hand_over = self._held.popleft()
            try:
                hand_over(records)
            except BaseException:
                records.unknown(OutcomeUnknown("the hand-over to the client was interrupted"))
                raise

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            for records, _ in self._held:
                records.failed(Closed("the producer was closed before the record was sent"))
            self._held.clear()
            self._refused.give_up()


def unstorable(sending: Sending, future_max: float) -> Error | None:
    """Return the error of a record that Kafka cannot store unchanged, before any I/O; None if it can be sent."""
    moment = sending.timestamp
    if moment is not None and (why := _bad_time(moment, future_max)):
        return bad_time(moment, why)
    for name, _ in sending.headers:
        if "\0" in name:
            return InvalidRecord(
                f"the header name {name!r} contains NUL, where librdkafka would cut it off",
                fix="Leave NUL out of header names, or put it into the header's value",
            )
    return None


def _bad_time(moment: int, future_max: float) -> str | None:
    """Return why Kafka would not store this timestamp; None if it would."""
    if moment == 0:
        return "Kafka treats 0 as the current time"
    if moment > (time.time() + future_max) * 1000:
        return f"it is more than future_max={future_max:g} s in the future"
    return None
