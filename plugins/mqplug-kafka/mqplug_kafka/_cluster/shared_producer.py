"""The native producers, which all producers of one client share.

A native producer has threads and connections of its own, so one is better than many. The core bounds the records that
a producer has on their way, and each record has its partition or gets it by murmur2. Only the size of batches differs:
for topics that accept only small batches there is a native producer that makes small ones. A flush of one producer
hastens the records of all. Nothing is purged before the last producer has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from mqplug import Closed, Error
from mqplug_kafka._cluster.compiled_sender import CompiledSender, NativeProducer, native_producer
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import error_from_native, native as native_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._cluster.native_options import batching
from mqplug_kafka._cluster.native_part import NativePart

METADATA_TIMEOUT_S = 5.0
FLUSH_SLICE_S = 0.02  # within this time the native client's threads have seen that records shall not linger


class SharedProducer:
    """A native producer, and the threads that wait for its delivery reports."""

    def __init__(
        self,
        options: Mapping[str, Any],
        credentials: Credentials,
        on_error: Callable[[KafkaError], None],
        part: NativePart,
    ) -> None:
        self._credentials = credentials
        self.generation = credentials.generation
        self._on_error = on_error
        self.batch_bytes = int(options["batch.size"])
        """The native client adds no record to a batch that has more than this with it."""
        try:
            self._native: NativeProducer | None = native_producer(part, credentials.prepared(options, on_error))
        except KafkaException as error:
            raise error_from_native(error, "the settings were refused") from error
        self.users = 0
        self._counts: dict[str, int] = {}  # the number of partitions that the native client knows, by topic
        self._serving = Lock()
        self._sleepers: set[Event] = set()

    @property
    def outdated(self) -> bool:
        """Whether another one should send what comes next: certificates were renewed, or this one is unsound."""
        return self._credentials.generation != self.generation or self.is_unsound

    @property
    def is_unsound(self) -> bool:
        """Whether it is the compiled part's, and its reports made no sense."""
        return isinstance(self._native, CompiledSender) and self._native.is_unsound

    @property
    def busy(self) -> bool:
        """Whether it has records on their way, or reports on them."""
        return self._native is not None and len(self._native) > 0

    @property
    def native(self) -> NativeProducer:
        """The native producer. Raises ``Closed`` after its last user has released it."""
        if self._native is None:
            raise Closed("the native producer was closed")
        return self._native

    def learn(self, topic: str, partition: int, count: int) -> None:
        """Make the native client learn of added partitions. By itself it asks every five minutes."""
        if not self._counts:
            Thread(
                target=_request_producer_id, args=(self.native, topic), name="mqplug-kafka-producer-id", daemon=True
            ).start()
        known = self._counts.setdefault(topic, count)
        if count > known or partition >= known:
            with suppress(KafkaException):  # then the native client refuses the record
                self.native.list_topics(topic, METADATA_TIMEOUT_S)
            self._counts[topic] = count

    def pump(self, timeout: float) -> None:
        """Serve delivery reports. One thread does it for all; the others sleep until it has served some."""
        native = self._native
        if native is None or not len(native):
            return
        if self._serving.acquire(blocking=False):
            try:
                native.poll(timeout)
            except KafkaException as error:  # a fatal one, which the native client raises instead of reporting it
                self._on_error(native_error(error))
                raise
            finally:
                self._serving.release()
                for sleeper in tuple(self._sleepers):
                    sleeper.set()
        else:
            self._sleep(timeout)

    def _sleep(self, timeout: float) -> None:
        woken = Event()
        self._sleepers.add(woken)
        if self._serving.locked():  # else it is our turn
            woken.wait(timeout)
        self._sleepers.discard(woken)

    def hasten(self, timeout: float) -> None:
        """Make the native client send the records that linger there."""
        native = self._native
        if native is not None and len(native):
            native.flush(min(timeout, FLUSH_SLICE_S))

    def end(self, timeout: float) -> None:
        """Close the native producer. Records not sent in time are purged, so that they are not sent later."""
        native = self.native
        if native.flush(timeout):
            native.purge()
            native.poll(0)
        self._native = None


def _request_producer_id(native: NativeProducer, topic: str) -> None:
    """Save the first records half a second.

    They wait for a producer id. The native client asks for one when it starts, before any broker is connected, then
    every half a second, and whenever it receives metadata. The bootstrap connection ends with its first metadata, so
    metadata are requested twice.
    """
    with suppress(KafkaException):  # no broker answers, so records have to wait anyway
        for _ in range(2):
            native.list_topics(topic, METADATA_TIMEOUT_S)


class SharedProducers:
    """The shared producers of one client, by the size of their batches; a new one after a fatal error."""

    def __init__(
        self,
        options: Mapping[str, Any],
        credentials: Credentials,
        failures: Callable[[KafkaError], None],
        part: NativePart,
    ) -> None:
        self._options = options
        self._credentials = credentials
        self._failures = failures
        self._part = part
        self._lock = Lock()
        self._current: dict[int, SharedProducer] = {}
        self._users = 0
        self._unwrapped: Producer | None = None  # made for those who ask, where the others are compiled
        self.batch_bytes = int(options["batch.size"])
        """The largest batches."""

    def unwrapped(self) -> Producer | None:
        """Return confluent-kafka's producer while there are producers: theirs, or one made for it."""
        with self._lock:
            if not self._users:
                return None
            natives = [shared.native for _, shared in sorted(self._current.items(), reverse=True)]
            plain = next((each for each in natives if isinstance(each, Producer)), self._unwrapped)
            if plain is None:
                plain = self._unwrapped = Producer(self._credentials.prepared(self._options, self._failures))
            return plain

    def acquire(self, batch_bytes: int | None = None) -> SharedProducer:
        """Return a shared producer whose batches are not larger than this, for one more user."""
        wanted = min(self.batch_bytes, batch_bytes or self.batch_bytes)
        with self._lock:
            shared = self._current.get(wanted)
            if shared is None:
                shared = self._current[wanted] = self._create(wanted)
            elif shared.outdated:
                shared = self._current[wanted] = self._renewed(wanted, shared)
            shared.users += 1
            self._users += 1
            return shared

    def _create(self, batch_bytes: int) -> SharedProducer:
        options = {**self._options, **batching(batch_bytes)}
        return SharedProducer(options, self._credentials, partial(self._on_error, batch_bytes), self._part)

    def _renewed(self, batch_bytes: int, former: SharedProducer) -> SharedProducer:
        """Return a new one with the renewed certificates; the former, until they change again, if they are no good."""
        try:
            return self._create(batch_bytes)
        except Error as error:
            if former.is_unsound:
                raise
            logger.warning("the native producer could not be renewed: %s", error)
            former.generation = self._credentials.generation
            return former

    def release(self, shared: SharedProducer, timeout: float) -> None:
        """Release it for one user; the last one closes it."""
        with self._lock:
            shared.users -= 1
            self._users -= 1
            if not self._users:
                self._unwrapped = None
            if shared.users:
                return
            if self._current.get(shared.batch_bytes) is shared:
                del self._current[shared.batch_bytes]
        shared.end(timeout)

    def _on_error(self, batch_bytes: int, error: KafkaError) -> None:
        self._failures(error)
        if error.fatal():  # it sends no more
            self._current.pop(batch_bytes, None)
