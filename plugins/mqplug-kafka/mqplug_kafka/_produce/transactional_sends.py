"""Sends of a transaction: records are handed to its native producer, and are pending until the transaction has ended.

Unlike a usual producer it never sends a refused record again: a transaction that loses one cannot be committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqplug.spi import Run, Sending
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.transactional_client import TransactionalClient
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.hand_over import way_to
from mqplug_kafka._produce.pending_records import PendingRecords, PendingRun, PendingSending
from mqplug_kafka._produce.record_checks import unstorable


class TransactionalSends:
    """Hands records to the native producer of a transaction name, and takes its delivery reports."""

    def __init__(self, connection: KafkaConnection, client: TransactionalClient) -> None:
        self._client = client
        self._future_max = connection.settings.future_max
        self._current_logs = CurrentLogs(connection)

    def send(self, sendings: Sequence[Sending], records: PendingRecords) -> None:
        """Hand over records one by one."""
        for each in sendings:
            self._send(PendingSending(each, records))

    def send_run(self, run: Run, records: PendingRecords) -> None:
        """Hand over records together."""
        self._current_logs.prepare(self._client.producer, run.topic, run.partition)
        pending = PendingRun(run, records)
        if not way_to(self._client.producer.native).send_run(pending, self._current_logs, self._future_max):
            for each in pending.sendings():
                self._send(each)

    def settle(self, timeout: float) -> None:
        """Learn of the logs to which records went."""
        self._current_logs.settle(timeout)

    def _send(self, sending: Sending) -> None:
        if (error := unstorable(sending, self._future_max)) is not None:
            sending.failed(error)
            return
        self._current_logs.prepare(self._client.producer, sending.topic, sending.partition)
        way_to(self._client.producer.native).send(sending, self._current_logs)
