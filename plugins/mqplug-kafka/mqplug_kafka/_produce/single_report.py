"""Hands one record to the native client, and settles it by its delivery report."""

from __future__ import annotations

from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug.spi import Sending
from mqplug_kafka._cluster.errors import BATCH_REFUSED_CODES, NOT_STORED_CODES, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.delivery_reports import Refused, SendsAgain, settle_failure


class SingleReport:
    """The report on a record that goes alone, as one with headers or a timestamp does.

    If a broker refuses it with its batch, it goes to ``again``; without that, it has failed.
    """

    __slots__ = ("_again", "_current_logs", "_sending")

    def __init__(self, sending: Sending, current_logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        self._sending = sending
        self._current_logs = current_logs
        self._again = again

    def produce(self, native: Producer) -> None:
        """Hand the record to the native client."""
        sending = self._sending
        headers: Any = list(sending.headers) if sending.headers else None
        try:
            native.produce(
                sending.topic, sending.value, sending.key, sending.partition, self,
                timestamp=sending.timestamp or 0, headers=headers,
            )  # fmt: skip
        except KafkaException as error:
            sending.failed(not_stored(error))  # refused by the client: it was never sent
            if self._again is not None:
                self._again.reported({}, ())

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the delivery report."""
        offset, partition = message.offset(), message.partition() or 0
        if error is None and offset is not None and offset >= 0:
            if self._again is not None:
                self._again.reported({partition: 0}, ())
            self._current_logs.when_known(self._sending.topic, partial(self._stored, partition, offset))
        elif error is not None and error.code() in BATCH_REFUSED_CODES and self._again is not None:
            self._again.refused_one()
            self._again.reported({}, (Refused(0, partition, self._sending, error),))
        else:
            if self._again is not None:
                proven = error is not None and error.code() in NOT_STORED_CODES
                self._again.reported({} if proven else {partition: 0}, ())
            settle_failure(self._sending, error)

    def _stored(self, partition: int, offset: int) -> None:
        self._sending.stored(self._current_logs.log(self._sending.topic, partition), (offset,))
