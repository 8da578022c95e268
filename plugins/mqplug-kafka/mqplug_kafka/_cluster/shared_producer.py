"""The client's producers, which all producers of one connection share.

A client's producer has its own threads and connections, so one is better than many. The core bounds the records that a
producer has in flight, and each record has its partition or gets it by murmur2. Only the batch size differs: topics
that accept only small batches get a producer with small ones. A flush of one producer hastens the records of all.
Nothing is purged before the last producer has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from mqplug import Closed, Error
from mqplug.spi.compiled import CompiledUse
from mqplug_kafka._cluster.client_options import batching
from mqplug_kafka._cluster.compiled_sender import CompiledSender
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import client_error, typed_error
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._cluster.plain_sender import PlainSender
from mqplug_kafka._cluster.sender import Sender

METADATA_TIMEOUT_S = 5.0
FLUSH_SLICE_S = 0.02  # within this time the client's threads have seen that records must not linger

SLICE_S = 0.005  # how long to wait for the reports of one producer while others have records in flight, too


class SharedProducer:
    """A client's producer, and the threads that wait for its delivery reports."""

    def __init__(
        self,
        options: Mapping[str, Any],
        credentials: Credentials,
        on_error: Callable[[KafkaError], None],
        part: CompiledUse,
    ) -> None:
        self._credentials = credentials
        self.generation = credentials.generation
        self._on_error = on_error
        self.batch_bytes = int(options["batch.size"])
        """The client adds no record that would make a batch larger than this."""
        try:
            self._sender: Sender | None = new_sender(part, credentials.prepared(options, on_error))
        except KafkaException as error:
            raise typed_error(error, "the settings were refused") from error
        self.users = 0
        self._counts: dict[str, int] = {}  # the number of partitions that the client knows, by topic
        self._serving = Lock()
        self._sleepers: set[Event] = set()

    @property
    def outdated(self) -> bool:
        """Whether another one should send the next records: certificates were renewed, or this one is unsound."""
        sender = self._sender
        return (sender is not None and sender.is_unsound) or self._credentials.generation != self.generation

    @property
    def is_unsound(self) -> bool:
        """Whether its reports contradicted each other."""
        return self._sender is not None and self._sender.is_unsound

    @property
    def busy(self) -> bool:
        """Whether it has records in flight, or reports on them."""
        return self._sender is not None and len(self._sender) > 0

    @property
    def sender(self) -> Sender:
        """The client's producer. Raises ``Closed`` after its last user has released it."""
        if self._sender is None:
            raise Closed("the client's producer was closed")
        return self._sender

    def learn(self, topic: str, partition: int, count: int) -> None:
        """Make the client learn of added partitions. By default it asks every five minutes."""
        if not self._counts:
            Thread(
                target=_request_producer_id, args=(self.sender, topic), name="mqplug-kafka-producer-id", daemon=True
            ).start()
        known = self._counts.setdefault(topic, count)
        if count > known or partition >= known:
            with suppress(KafkaException):  # the client then refuses the record
                self.sender.list_topics(topic, METADATA_TIMEOUT_S)
            self._counts[topic] = count

    def pump(self, timeout: float) -> None:
        """Serve delivery reports. One thread does so for all; the others sleep until it has served some."""
        sender = self._sender
        if sender is None or not len(sender):
            return
        if self._serving.acquire(blocking=False):
            try:
                sender.poll(timeout)
            except KafkaException as error:  # a fatal one, which the client raises instead of reporting it
                self._on_error(client_error(error))
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
        if self._serving.locked():  # otherwise it is our turn
            woken.wait(timeout)
        self._sleepers.discard(woken)

    def hasten(self, timeout: float) -> None:
        """Make the client send its lingering records."""
        sender = self._sender
        if sender is not None and len(sender):
            sender.flush(min(timeout, FLUSH_SLICE_S))

    def end(self, timeout: float) -> None:
        """Close the client's producer. Records not sent in time are purged, so that they are not sent later."""
        sender = self.sender
        if sender.flush(timeout):
            sender.purge()
            sender.poll(0)
        self._sender = None


def _request_producer_id(sender: Sender, topic: str) -> None:
    """Save the first records half a second of waiting for a producer id.

    The client asks for an id when it starts, before any broker is connected, then every half a second, and whenever it
    receives metadata. The bootstrap connection ends with its first metadata, so metadata are requested twice.
    """
    with suppress(KafkaException):  # no broker answers, so records must wait anyway
        for _ in range(2):
            sender.list_topics(topic, METADATA_TIMEOUT_S)


def new_sender(part: CompiledUse, options: dict[str, Any]) -> Sender:
    """Return a sender: the compiled part's if it is usable, otherwise the plain one."""
    return CompiledSender(part, options) if part.usable("sends") else PlainSender(options)


class SharedProducers:
    """The shared producers of one client, by batch size. A fatal error makes a new one."""

    def __init__(
        self,
        options: Mapping[str, Any],
        credentials: Credentials,
        failures: Callable[[KafkaError], None],
        part: CompiledUse,
    ) -> None:
        self._options = options
        self._credentials = credentials
        self._failures = failures
        self._part = part
        self._lock = Lock()
        self._current: dict[int, SharedProducer] = {}
        self._users = 0
        self._unwrapped: Producer | None = None  # made on demand if all others are compiled
        self.batch_bytes = int(options["batch.size"])
        """The largest batch size."""

    def unwrapped(self) -> Producer | None:
        """Return confluent-kafka's producer while producers are open: one of theirs, or a separate one."""
        with self._lock:
            if not self._users:
                return None
            senders = [shared.sender for _, shared in sorted(self._current.items(), reverse=True)]
            plain = next((each for each in senders if isinstance(each, Producer)), self._unwrapped)
            if plain is None:
                plain = self._unwrapped = Producer(self._credentials.prepared(self._options, self._failures))
            return plain

    def acquire(self, batch_bytes: int | None = None) -> SharedProducer:
        """Return a shared producer whose batches are at most this large, for one more user."""
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
        """Return a new one with the renewed certificates. If they cannot be used, keep the former until they change."""
        try:
            return self._create(batch_bytes)
        except Error as error:
            if former.is_unsound:
                raise
            logger.warning("the client's producer could not be renewed: %s", error)
            former.generation = self._credentials.generation
            return former

    def release(self, shared: SharedProducer, timeout: float) -> None:
        """Release it for one user. The last release closes it."""
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


class ProducersBySize:
    """The shared producers that one producer uses, by batch size. Each is acquired at its first use."""

    def __init__(self, shared_producers: SharedProducers) -> None:
        self._shared_producers = shared_producers
        self._lock = Lock()
        largest = shared_producers.acquire()
        self._acquired = {largest.batch_bytes: largest}
        self._former: list[SharedProducer] = []  # with outdated certificates, until all their reports are in

    @property
    def largest(self) -> SharedProducer:
        """The one with the largest batches."""
        return self.of(None)

    def of(self, batch_bytes: int | None) -> SharedProducer:
        """Return the one whose batches are at most this large."""
        most = self._shared_producers.batch_bytes
        wanted = min(most, batch_bytes or most)
        found = self._acquired.get(wanted)
        if found is None or found.outdated:
            with self._lock:
                found = self._acquired.get(wanted)
                if found is None or found.outdated:
                    former, found = found, self._shared_producers.acquire(wanted)
                    self._acquired[wanted] = found
                    if former is not None:
                        self._former.append(former)
        return found

    def pump(self, timeout: float) -> None:
        """Serve delivery reports. Raise a typed error if the client ended with a fatal one."""
        try:
            if len(self._acquired) == 1 and not self._former:
                next(iter(self._acquired.values())).pump(timeout)
            else:
                self._pump_several(timeout)
        except KafkaException as error:
            raise typed_error(error, "the brokers refuse everything that this client sends") from error

    def _pump_several(self, timeout: float) -> None:
        busy = [each for each in self._all() if each.busy]
        for each in busy:
            each.pump(timeout if len(busy) == 1 else min(timeout, SLICE_S))
        self._release_former()

    def _all(self) -> list[SharedProducer]:
        return [*self._acquired.values(), *self._former]

    def _release_former(self) -> None:
        """Release producers with outdated certificates that have nothing in flight."""
        if not self._former:
            return
        with self._lock:
            done = [each for each in self._former if not each.busy]
            self._former = [each for each in self._former if each.busy]
        for each in done:
            self._shared_producers.release(each, 0)

    def flush(self, timeout: float) -> None:
        """Make the clients send their lingering records."""
        for each in self._all():
            each.hasten(timeout)

    def release(self, timeout: float) -> None:
        """Release them all."""
        for each in self._all():
            self._shared_producers.release(each, timeout)
