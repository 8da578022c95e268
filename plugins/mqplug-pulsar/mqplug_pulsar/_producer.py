"""The producer: one native producer for each partition, opened when the first message for it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Event, Lock
from typing import Any

import _pulsar

import mqplug
from mqplug import Log
from mqplug.spi import Sending
from mqplug_pulsar import _ids
from mqplug_pulsar._connection import PulsarConnection
from mqplug_pulsar._errors import outcome, translated
from mqplug_pulsar._escapes import EPOCH, headers_to_properties, key_to_text

QUEUE_MESSAGES = 200_000  # the core lets fewer on their way: this queue is never the one that is full
BATCH_DELAY_MS = 2  # how long a message waits for company


class Lane:
    """What goes to one partition, in order. Until the native producer is open, messages wait here."""

    def __init__(self, log: Log, on_settled: Callable[[], None]) -> None:
        self.log = log
        self.producer: Any = None
        self.failed = False
        self._on_settled = on_settled
        self._lock = Lock()
        self._waiting: list[Sending] = []

    def send(self, sending: Sending) -> None:
        """Hand a message over, or keep it until there is a native producer."""
        with self._lock:
            if self.producer is None:
                self._waiting.append(sending)
            else:
                self._hand_over(sending)

    def opened(self, opening: Future[Any]) -> None:
        """The native producer is there, or will never be."""
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
        except Exception as error:  # noqa: BLE001 - it was refused before it was handed over
            sending.failed(_why(error, sending.topic))
            self._on_settled()

    def _reported(self, sending: Sending, result: Any, native: Any) -> None:
        # On the client's thread. After an exception here the client would never report again.
        try:
            if result != _pulsar.Result.Ok:
                _settle_failure(sending, result)
            elif native.ledger_id() >= 0:
                sending.stored(self.log, _ids.coordinates(native), _ids.detail(native))
            else:
                sending.unknown(mqplug.OutcomeUnknown("the broker dropped the message as a duplicate: it has no id"))
        except Exception as error:  # noqa: BLE001
            sending.unknown(mqplug.OutcomeUnknown(f"the report could not be read: {error}"))
        self._on_settled()


class PulsarProducer:
    """Takes records for any topic of the connection."""

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._something = Event()  # was settled since the last pump

    def send(self, sendings: Sequence[Sending]) -> None:
        for sending in sendings:
            lane = self._lanes.get((sending.topic, sending.partition))
            if lane is None or lane.failed:
                lane = self._open(sending.topic, sending.partition)
            lane.send(sending)

    def pump(self, timeout: float) -> None:
        self._something.wait(timeout)
        self._something.clear()

    def flush(self, timeout: float) -> None:
        """Batches leave by themselves, after two milliseconds.

        The client's own flush either waits for the broker, or (``flush_async``) takes its lock without letting go of
        Python's, while its thread holds that lock and wants Python's: the process stands still for ever.
        """

    def close(self, timeout: float) -> None:
        producers = [lane.producer for lane in self._lanes.values() if lane.producer is not None]
        self._lanes.clear()
        with suppress(mqplug.Error):  # what the broker does not answer in time goes on by itself
            self._connection.calls.each({number: each.close for number, each in enumerate(producers)}, timeout)

    def _open(self, topic: str, partition: int) -> Lane:
        log = self._connection.log(self._connection.names.canonical(topic), partition)
        lane = self._lanes[topic, partition] = Lane(log, self._on_settled)
        self._connection.calls.start(partial(self._create, log)).add_done_callback(lane.opened)
        return lane

    def _create(self, log: Log) -> Any:
        return self._connection.client.create_producer(
            self._connection.native_topic(log),
            max_pending_messages=QUEUE_MESSAGES,
            block_if_queue_full=False,
            batching_enabled=True,
            batching_max_publish_delay_ms=BATCH_DELAY_MS,
        )

    def _on_settled(self) -> None:
        if not self._something.is_set():
            self._something.set()


def _settle_failure(sending: Sending, result: Any) -> None:
    proven, error = outcome(result)
    if proven:
        sending.failed(error)
    else:
        sending.unknown(error)


def _native(record: Sending) -> dict[str, Any]:
    """A record as the native client takes it."""
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
    """Why a message was not handed over, which proves that it is not stored."""
    if isinstance(error, mqplug.Error):
        return error
    if isinstance(error, _pulsar.PulsarException):
        return translated(error, topic)
    made = mqplug.Error(f"the native client refused the message: {error}", topic=topic)
    made.__cause__ = error
    return made
