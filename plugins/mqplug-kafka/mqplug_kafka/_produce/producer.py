"""The producer, which hands records to the client and takes its delivery reports."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.shared_producer import ProducersBySize
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.topic_sends import TopicSends

LINGER_S = 0.002


class KafkaProducer:
    """A producer that hands records to the client's, whose delivery reports settle them."""

    linger_s = LINGER_S

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._producers = ProducersBySize(connection.shared_producers)
        self._current_logs = CurrentLogs(connection)
        self._topics: dict[str, TopicSends] = {}
        self._opening = Lock()

    def send(self, sendings: Sequence[Sending]) -> None:
        """Hand records to the client one by one."""
        for sending in sendings:
            self._sends_to(sending.topic).send(sending)

    def send_run(self, run: Run) -> None:
        """Hand records to the client together."""
        self._sends_to(run.topic).send_run(run)

    def pump(self, timeout: float) -> None:
        """Serve delivery reports, and go on with what was held or refused."""
        self._producers.pump(timeout)
        self._current_logs.settle(timeout)
        for sends in tuple(self._topics.values()):
            if sends.holds:
                sends.go_on(timeout)

    def flush(self, timeout: float) -> None:
        """Make the client send what lingers there."""
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
