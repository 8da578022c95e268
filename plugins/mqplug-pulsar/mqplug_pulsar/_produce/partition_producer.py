"""The client's producer of one partition, opened according to the settings, and its unsettled records, in order.

Values are bytes that the application has encoded. The producer uses the topic's schema, so that brokers accept the
bytes where a namespace enforces schemas, and store the schema's version with each message.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Any

import _pulsar
from _pulsar import SchemaType

import mqplug
from mqplug import Log
from mqplug_pulsar._cluster.connection import PulsarConnection
from mqplug_pulsar._cluster.errors import PRODUCE, error_from_exception, error_from_result, named
from mqplug_pulsar._produce.client_sender import HandOver, Pending, R
from mqplug_pulsar._settings import PulsarSettings


class PartitionProducer:
    """The client's producer of one partition, and its unsettled records."""

    def __init__(self, log: Log, on_settled: Callable[[], None]) -> None:
        self.log = log
        self.failed = False
        """Whether it cannot send any more, so that another one is needed."""
        self._on_settled = on_settled
        self._lock = Lock()
        self._native: Any = None
        self._waiting: list[tuple[Any, HandOver[Any]]] = []
        self._unsettled: set[Pending] = set()
        self._last: Pending | None = None  # handed over last, until it is settled
        self._flushed: Pending | None = None  # the last one at the last flush, until it is settled
        self._late: list[Pending] = []  # the last record was reported, but others were not yet
        self._closed = False
        self._ending = False
        self._topic_error: mqplug.Error | None = None
        self._opening_error: mqplug.Error | None = None

    # sending -----------------------------------------------------------------------------------------------

    def send(self, records: R, hand_over: HandOver[R]) -> None:
        """Hand a record or a run over to the client's producer, or keep it until the producer is open."""
        with self._lock:
            if self._opening_error is not None:  # it failed at once, before these records came
                records.failed(self._opening_error)
                self._on_settled()
            elif self._native is None:
                self._waiting.append((records, hand_over))
            else:
                hand_over(records, self._native, self)

    def opened(self, opening: Future[Any]) -> None:
        """Hand waiting records over to the opened client's producer, or settle them as failed."""
        error = opening.exception() if not opening.cancelled() else mqplug.Closed("the connection was closed")
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if error is None and not self._closed:
                self._native = opening.result()
                for records, hand_over in waiting:
                    hand_over(records, self._native, self)
                self._on_settled()  # the thread that waits may flush now
                return
            self.failed = True
            failure = _opening_error(error or mqplug.Closed("the producer was closed"), self.log.topic)
            self._opening_error = failure
        if error is None:
            close_quietly(opening.result())
        for records, _ in waiting:
            records.failed(failure)
        self._on_settled()

    def begin(self, pending: Pending) -> None:
        """Note that these records are about to be handed over."""
        self._unsettled.add(pending)
        self._last = pending

    def hasten(self, flush: Callable[[Any], None]) -> None:
        """Flush the client's producer, unless records of the last flush are still unsettled: the others wait for these.

        So records of several threads that wait share batches.
        """
        last = self._last
        if last is None or self._flushed is not None:
            return
        with self._lock:
            if self._native is None or self.failed or self._closed:
                return
            self._flushed = last
        if last not in self._unsettled:  # settled by another thread
            self._forget(last)
        flush(self._native)

    def withdraw(self, pending: Pending) -> None:
        """Forget these records: they were not handed over."""
        self._forget(pending)

    # reports -----------------------------------------------------------------------------------------------

    def reported(self, pending: Pending) -> None:
        """Settle these records if all reports are in, and ring. Runs on the client's thread."""
        self.take(pending)
        self._on_settled()

    def take(self, pending: Pending) -> None:
        """Settle these records if all reports are in. No error may reach the client's thread."""
        try:
            if not pending.is_complete:
                self._late.append(pending)
            elif not self._ending:
                self._settle(pending)
        except Exception as error:  # noqa: BLE001
            pending.unknown(mqplug.OutcomeUnknown(f"the report on the message could not be read: {error}"))

    def settle_late(self) -> bool:
        """Settle records that were incomplete when their last one was reported. Return whether some still are."""
        if self._late and not self._ending:
            late, self._late = self._late, []
            for pending in late:
                self.take(pending)
        return bool(self._late)

    def error_of(self, result: Any) -> tuple[bool, mqplug.Error]:
        """Return whether this result proves that a message was not stored, and the error.

        A time-out although there is a broker means that the client's producer is dead: if the broker closes it again
        before it has confirmed it, pulsar-client takes it for open and never hears of it again.
        """
        if self._topic_error is not None and result == _pulsar.Result.AlreadyClosed:
            return True, self._topic_error
        if result == _pulsar.Result.Timeout and self._native.is_connected():
            self.failed = True
        proven, error = error_from_result(result)
        return proven, named(error, PRODUCE) if proven else error

    def _settle(self, pending: Pending) -> None:
        pending.settle()
        self._forget(pending)

    def _forget(self, pending: Pending) -> None:
        self._unsettled.discard(pending)
        if pending is self._last:
            self._last = None
        if pending is self._flushed:
            self._flushed = None

    # ending ------------------------------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        """Whether records are in transit, but the client's producer has no broker for them."""
        return bool(self._unsettled) and not self.failed and not self._native.is_connected()

    @property
    def native_topic(self) -> str:
        """The Pulsar topic of its open client's producer."""
        topic: str = self._native.topic()
        return topic

    def end(self, still_gone: Callable[[], bool]) -> None:
        """Close the client's producer of a deleted topic, and settle the records in transit.

        They fail only if they are certainly not stored: the topic must still be gone after the producer is closed.
        """
        with self._lock:
            if not self.is_cut_off:  # the topic exists again
                return
            self.failed = self._ending = True
        close_quietly(self._native)
        if still_gone():
            self._topic_error = mqplug.TopicNotFound(
                "the topic was deleted", topic=self.log.topic, fix="Create it with create_topic"
            )
        self._ending = False
        for pending in tuple(self._unsettled):
            self._settle(pending)
        self._on_settled()

    def close(self) -> None:
        """Close the client's producer."""
        with self._lock:
            self._closed = True
        if self._native is not None:
            close_quietly(self._native)
        self._last = self._flushed = None  # they refer to this object


def close_quietly(native: Any) -> None:
    """Close a client's producer, and ignore its errors."""
    with suppress(_pulsar.PulsarException):
        native.close()


def _opening_error(error: BaseException, topic: str) -> mqplug.Error:
    """Return the error for records that were never handed over, and so are not stored."""
    if isinstance(error, mqplug.Error):
        return error
    if isinstance(error, _pulsar.PulsarException):
        return named(error_from_exception(error, topic), PRODUCE)
    made = mqplug.Error(f"pulsar-client could not open a producer: {error}", topic=topic)
    made.__cause__ = error
    return made


SEND_TIMEOUT_S = 30.0  # pulsar-client's default
NO_LIMIT = 0
NEWEST = -1  # version of a schema
COMPRESSIONS = {
    "none": _pulsar.CompressionType.NONE,
    "lz4": _pulsar.CompressionType.LZ4,
    "zlib": _pulsar.CompressionType.ZLib,
    "zstd": _pulsar.CompressionType.ZSTD,
    "snappy": _pulsar.CompressionType.SNAPPY,
}
ADOPTED = frozenset({"AVRO", "JSON", "STRING", "PROTOBUF", "PROTOBUF_NATIVE"})
"""Schemas whose messages the client accepts as bytes. It would crash with KEY_VALUE, and ignores the others."""


def open_client_producer(connection: PulsarConnection, log: Log) -> Any:
    """Open the client's producer of a partition. Raise ``ConfigError`` if the topic's schema rules it out."""
    topic, client = connection.native_topic(log), connection.client._client
    options = _options(connection.settings)
    schema = _newest_schema(client, topic)
    kind = None if schema is None else schema.schema_type().name
    if kind in ADOPTED:
        options.schema(schema)
    try:
        return client.create_producer(topic, options)
    except _pulsar.IncompatibleSchema as error:
        raise _schema_error(log.topic, kind) from error


def _newest_schema(client: Any, topic: str) -> Any:
    """Return the topic's schema; None if it has none, or if the broker does not show it."""
    try:
        schema = client.get_schema_info(topic, NEWEST)
    except (_pulsar.TopicNotFound, _pulsar.AuthorizationError):
        return None
    return None if schema.schema_type() in {SchemaType.NONE, SchemaType.BYTES} else schema


def _schema_error(topic: str, kind: str | None) -> mqplug.ConfigError:
    if kind is None or kind in ADOPTED:
        return mqplug.ConfigError(
            f"the namespace of the topic {topic!r} refuses this producer, which uses the topic's schema "
            f"({kind or 'none'}), as incompatible",
            topic=topic, fix="Upload a schema that the namespace's compatibility strategy allows",
        )  # fmt: skip
    return mqplug.ConfigError(
        f"the topic {topic!r} has a schema of type {kind} and refuses bytes without it, but pulsar-client for Python "
        f"cannot send bytes of this type",
        topic=topic, fix=f"Use a schema of type {', '.join(sorted(ADOPTED))}, or do not enforce schemas there",
    )  # fmt: skip


def _options(settings: PulsarSettings) -> Any:
    options = _pulsar.ProducerConfiguration()
    options.max_pending_messages(NO_LIMIT)  # the core has a limit
    options.block_if_queue_full(False)
    options.send_timeout_millis(round(SEND_TIMEOUT_S * 1000))
    options.compression_type(COMPRESSIONS[settings.compression])
    options.batching_enabled(settings.batching != "none")
    if settings.batching == "by_key":
        options.batching_type(_pulsar.BatchingType.KeyBased)
    options.batching_max_publish_delay_ms(round(settings.batch_delay * 1000))
    options.batching_max_messages(settings.batch_messages)
    options.batching_max_allowed_size_in_bytes(settings.batch_bytes)
    return options
