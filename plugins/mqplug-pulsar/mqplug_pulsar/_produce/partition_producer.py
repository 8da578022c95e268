"""Messages for one partition, in order, which wait until its native producer is open."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Sending
from mqplug_pulsar._cluster.access_rights import PRODUCE, named
from mqplug_pulsar._cluster.errors import error_from_exception, error_from_result
from mqplug_pulsar._format import message_ids
from mqplug_pulsar._format.escapes import EPOCH, headers_to_properties, key_to_text


class PartitionProducer:
    """The messages for one partition, in order. They wait here until its native producer is open."""

    def __init__(self, log: Log, on_settled: Callable[[], None]) -> None:
        self.log = log
        self.producer: Any = None
        self.failed = False
        self._on_settled = on_settled
        self._lock = Lock()
        self._waiting: list[Sending] = []

    def send(self, sending: Sending) -> None:
        """Hand a message to the native producer, or keep it until that is open."""
        with self._lock:
            if self.producer is None:
                self._waiting.append(sending)
            else:
                self._hand_over(sending)

    def opened(self, opening: Future[Any]) -> None:
        """Hand over the waiting messages to the opened native producer, or settle them as failed."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            error = opening.exception() if not opening.cancelled() else mqplug.Closed("the connection was closed")
            if error is None:
                self.producer = opening.result()
                for sending in waiting:
                    self._hand_over(sending)
                return
            self.failed = True
        for sending in waiting:
            sending.failed(_why(error, sending.topic))
        self._on_settled()

    def _hand_over(self, sending: Sending) -> None:
        try:
            self.producer.send_async(callback=partial(self._reported, sending), **_native(sending))
        except Exception as error:  # noqa: BLE001 - refused by the client: it was never sent
            sending.failed(_why(error, sending.topic))
            self._on_settled()

    def _reported(self, sending: Sending, result: Any, native: Any) -> None:
        # Runs on the client's thread, which after an exception here would never report again.
        try:
            if result != _pulsar.Result.Ok:
                _settle_failure(sending, result)
            elif native.ledger_id() >= 0:
                sending.stored(self.log, message_ids.coordinates(native), message_ids.detail(native))
            else:
                sending.unknown(mqplug.OutcomeUnknown("the broker dropped the message as a duplicate, so it has no id"))
        except Exception as error:  # noqa: BLE001
            sending.unknown(mqplug.OutcomeUnknown(f"the broker's report on the message could not be read: {error}"))
        self._on_settled()


def _settle_failure(sending: Sending, result: Any) -> None:
    proven, error = error_from_result(result)
    if proven:
        sending.failed(named(error, PRODUCE))
    else:
        sending.unknown(error)


def _native(record: Sending) -> dict[str, Any]:
    """Return a record as arguments of the native client."""
    properties = headers_to_properties(record.headers) if record.headers else {}
    if record.timestamp == 0:
        properties[EPOCH] = ""
    return {
        "content": record.value,
        "properties": properties,
        "partition_key": None if record.key is None else key_to_text(record.key),
        "event_timestamp": record.timestamp,
    }


def _why(error: BaseException, topic: str) -> mqplug.Error:
    """Return the error of a message that was not handed over, and so is not stored."""
    if isinstance(error, mqplug.Error):
        return error
    if isinstance(error, _pulsar.PulsarException):
        return named(error_from_exception(error, topic), PRODUCE)
    made = mqplug.Error(f"the native client refused the message: {error}", topic=topic)
    made.__cause__ = error
    return made
