"""The native producer, which all producers of one client share.

It has threads and connections of its own, so that one is better than many. What a producer may have on its way is
bounded by the core, and partitions are given with each record or found by murmur2: no setting differs. A flush of one
producer hastens the records of all; nothing is purged before the last of them has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from mqplug import Closed
from mqplug_kafka._cluster.errors import error_from_native
from mqplug_kafka._cluster.log_throttle import logger

METADATA_TIMEOUT_S = 5.0  # seconds
FLUSH_SLICE_S = 0.02  # seconds in which the native client's threads have seen that nobody wants to linger


class SharedProducer:
    """A native producer and those who wait for its reports."""

    def __init__(self, options: Mapping[str, Any], on_error: Callable[[KafkaError], None]) -> None:
        try:
            self._native: Producer | None = Producer({**options, "error_cb": on_error, "logger": logger})
        except KafkaException as error:
            raise error_from_native(error, "the settings were refused") from error
        self.users = 0
        self._counts: dict[str, int] = {}  # of partitions that the native client knows, by topic
        self._serving = Lock()
        self._sleepers: set[Event] = set()

    @property
    def native(self) -> Producer:
        """The native producer; it is gone when all have let go of it."""
        if self._native is None:
            raise Closed("the native producer was closed")
        return self._native

    def learn(self, topic: str, partition: int, count: int) -> None:
        """See that the native client knows this partition of so many; by itself it looks every five minutes."""
        if not self._counts:
            Thread(
                target=_request_producer_id, args=(self.native, topic), name="mqplug-kafka-hurry", daemon=True
            ).start()
        if partition >= self._counts.setdefault(topic, count):
            with suppress(KafkaException):  # then it refuses the record
                self.native.list_topics(topic, METADATA_TIMEOUT_S)
            self._counts[topic] = count

    def pump(self, timeout: float) -> None:
        """Serve reports; one thread does for all, the others sleep until it has served some."""
        native = self._native
        if native is None or not len(native):
            return
        if self._serving.acquire(blocking=False):
            try:
                native.poll(timeout)
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
        """Send what lingers."""
        native = self._native
        if native is not None and len(native):
            native.flush(min(timeout, FLUSH_SLICE_S))

    def end(self, timeout: float) -> None:
        """Nobody needs it any more: what is not sent by then is given up, so that nothing of it is sent later."""
        native = self.native
        if native.flush(timeout):
            native.purge()
            native.poll(0)
        self._native = None


def _request_producer_id(native: Producer, topic: str) -> None:
    """Spare the first records half a second.

    They wait for a producer id. The native client asks for it when it starts, when no broker is connected yet, and then
    every half a second; or when metadata come. The first metadata come by the bootstrap connection, which ends with
    them: so two questions it is.
    """
    with suppress(KafkaException):  # no broker answers: then there is nothing to hurry
        for _ in range(2):
            native.list_topics(topic, METADATA_TIMEOUT_S)


class SharedProducers:
    """Hands out the sender of one client; a new one after a fatal error."""

    def __init__(self, options: Mapping[str, Any], failures: Callable[[KafkaError], None]) -> None:
        self._options = options
        self._failures = failures
        self._lock = Lock()
        self._current: SharedProducer | None = None

    @property
    def natives(self) -> tuple[Producer, ...]:
        """The native producer, if there is one now."""
        current = self._current
        return () if current is None else (current.native,)

    def acquire(self) -> SharedProducer:
        """The sender, for one more user."""
        with self._lock:
            if self._current is None:
                self._current = SharedProducer(self._options, self._on_error)
            self._current.users += 1
            return self._current

    def release(self, sender: SharedProducer, timeout: float) -> None:
        """One user less."""
        with self._lock:
            sender.users -= 1
            if sender.users:
                return
            if self._current is sender:
                self._current = None
        sender.end(timeout)

    def _on_error(self, error: KafkaError) -> None:
        self._failures(error)
        if error.fatal():  # it sends no more
            self._current = None
