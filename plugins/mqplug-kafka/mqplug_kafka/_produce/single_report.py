"""Settles a record that goes alone by its delivery report."""

from __future__ import annotations

from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqplug.spi import Sending
from mqplug_kafka._cluster.errors import BATCH_REFUSED_CODES, NOT_STORED_CODES, not_stored
from mqplug_kafka._produce.current_logs import CurrentLogs
from mqplug_kafka._produce.run_outcome import Refused, SendsAgain, settle_failure


class SingleOutcome:
    """What became of a record that went alone.

    If a broker refuses it with its batch, it goes to ``again``; without that, it has failed.
    """

    __slots__ = ("_again", "_current_logs", "sending")

    def __init__(self, sending: Sending, current_logs: CurrentLogs, again: SendsAgain | None = None) -> None:
        self.sending = sending
        self._current_logs = current_logs
        self._again = again

    def settle_refused(self, error: KafkaError | KafkaException) -> None:
        """Settle a record that the native client did not accept: it was never sent."""
        self.sending.failed(not_stored(error))
        if self._again is not None:
            self._again.reported({}, ())

    def settle(self, partition: int, offset: int | None, error: KafkaError | None) -> None:
        """Settle the record by its report."""
        if error is None and offset is not None and offset >= 0:
            if self._again is not None:
                self._again.reported({partition: 0}, ())
            self._current_logs.when_known(self.sending.topic, partial(self._stored, partition, offset))
        elif error is not None and error.code() in BATCH_REFUSED_CODES and self._again is not None:
            self._again.refused_one()
            self._again.reported({}, (Refused(0, partition, self.sending, error),))
        else:
            if self._again is not None:
                proven = error is not None and error.code() in NOT_STORED_CODES
                self._again.reported({} if proven else {partition: 0}, ())
            settle_failure(self.sending, error)

    def _stored(self, partition: int, offset: int) -> None:
        self.sending.stored(self._current_logs.log(self.sending.topic, partition), (offset,))


class SingleReport(SingleOutcome):
    """The report of confluent-kafka's client."""

    __slots__ = ()

    def produce(self, native: Producer) -> None:
        """Hand the record to the native client."""
        sending = self.sending
        headers: Any = list(sending.headers) if sending.headers else None
        try:
            native.produce(
                sending.topic, sending.value, sending.key, sending.partition, self,
                timestamp=sending.timestamp or 0, headers=headers,
            )  # fmt: skip
        except KafkaException as error:
            self.settle_refused(error)

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the delivery report."""
        self.settle(message.partition() or 0, message.offset(), error)
