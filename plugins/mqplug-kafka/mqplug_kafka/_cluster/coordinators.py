"""Requests to the coordinators of groups: to change, delete or describe a group, and to read its stored offsets.

A request that times out inside librdkafka while its coordinator is down is resumed when the coordinator comes back. Its
state is gone by then, and the process aborts (librdkafka issue 4605). So no request times out inside librdkafka: the
caller stops waiting, and the client is ended. A request that was not sent by then is never sent.

Stored offsets are read by consumers that have the group's id and never join it. Do not use the admin client's
``list_consumer_group_offsets``: when a broker answers NOT_COORDINATOR, as it does for a moment after a restart,
librdkafka follows a null pointer and the process crashes (librdkafka issue 5040).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Error
from mqplug.spi import Deadline
from mqplug_kafka._cluster.admin_requests import MIN_TIMEOUT_S, RETRY_PAUSE_S, AdminRequests, ConnectionFailures
from mqplug_kafka._cluster.credentials import Credentials
from mqplug_kafka._cluster.errors import TRANSIENT_CODES, client_error, is_transient

T = TypeVar("T")

CLIENT_TIMEOUT_S = 3600.0  # librdkafka's own limit, which is never reached
MAX_WAIT_S = 3000.0  # a caller's wait ends before librdkafka's

MAX_IDLE_CLIENTS = 4  # kept for later requests

MAX_IDLE_CONSUMERS = 8  # kept for the next request about their group, with three threads each
ATTEMPT_TIMEOUT_S = 1.0  # a kept consumer that does not answer in this time is replaced

_RETRIED_CODES = TRANSIENT_CODES | {
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}

Key = tuple[str, bool]
"""A group, and whether its consumer waits for open transactions."""


class Coordinators:
    """Admin clients for these requests. A client is reused only if all of its requests were answered."""

    def __init__(self, options: Mapping[str, Any], credentials: Credentials) -> None:
        self._options = options
        self._credentials = credentials
        self._idle: list[AdminRequests] = []

    def ask(
        self,
        what: str,
        ask: Callable[[AdminClient, float], Future[T]],
        timeout: float,
        check: Callable[[T], None] | None = None,
    ) -> None:
        """Wait for the answer to one request; ``ask`` gets the client, and the timeout to give to the request.

        ``check`` raises the refusals inside an answer.
        """
        with self._client() as requests:
            requests.ask(what, lambda _: ask(requests.admin, CLIENT_TIMEOUT_S), min(timeout, MAX_WAIT_S), check)

    def describe(self, groups: Sequence[str], timeout: float) -> dict[str, ConsumerGroupDescription]:
        """Return the coordinators' descriptions of these groups. A group that does not exist is described as dead.

        The request for a group is repeated while its coordinator moves or still loads.
        """
        if not groups:
            return {}
        deadline = Deadline(min(timeout, MAX_WAIT_S))
        with self._client() as requests:
            asked = _describe(requests, groups)
            return {name: _described(requests, name, asked[name], deadline) for name in groups}

    def close(self) -> None:
        """Release the idle clients."""
        self._idle.clear()

    @contextmanager
    def _client(self) -> Iterator[AdminRequests]:
        requests = self._take()
        answered = False
        try:
            yield requests
            answered = True
        finally:
            if answered and len(self._idle) < MAX_IDLE_CLIENTS:
                self._idle.append(requests)
            else:
                requests.end()

    def _take(self) -> AdminRequests:
        """Return a client that never lost all brokers, because one that did may never answer again."""
        while True:
            try:
                requests = self._idle.pop()
            except IndexError:
                return AdminRequests(self._options, self._credentials)
            if requests.is_fresh():
                return requests
            requests.end()


def _describe(requests: AdminRequests, groups: Sequence[str]) -> dict[str, Future[ConsumerGroupDescription]]:
    return requests.admin.describe_consumer_groups(list(groups), request_timeout=CLIENT_TIMEOUT_S)


def _described(
    requests: AdminRequests, group: str, asked: Future[ConsumerGroupDescription], deadline: Deadline
) -> ConsumerGroupDescription:
    """Return the description of one group out of a request for several."""
    what = f"group {group!r}"
    try:
        return requests.wait(what, asked, deadline.remaining())
    except Error as error:
        if not is_transient(error):
            raise
    return requests.ask(what, lambda _: _describe(requests, [group])[group], deadline.remaining())


class GroupOffsets:
    """Consumers that read stored offsets, each request on its own thread.

    The first request about a group costs a connection to its coordinator, about 60 ms; later ones a round trip.
    """

    def __init__(self, options: Mapping[str, Any], credentials: Credentials, failures: ConnectionFailures) -> None:
        self._options = options
        self._credentials = credentials
        self._failures = failures
        self._lock = Lock()
        self._idle: OrderedDict[Key, Consumer] = OrderedDict()
        self._closed = False
        self._generation = credentials.generation

    def ask(
        self, group: str, partitions: Sequence[TopicPartition], timeout: float, *, settled: bool = True
    ) -> Future[list[TopicPartition]]:
        """Begin to read a group's stored offsets. An offset below 0 means that none is stored.

        A ``settled`` answer waits until no open transaction stores one of these offsets. Otherwise the answer has the
        offsets from before such a transaction.
        """
        future: Future[list[TopicPartition]] = Future()

        def work() -> None:
            try:
                future.set_result(self._answer((group, settled), partitions, Deadline(max(timeout, MIN_TIMEOUT_S))))
            except Exception as error:  # noqa: BLE001  # raised where the future is awaited
                future.set_exception(error)

        Thread(target=work, name="mqplug-kafka-group-offsets", daemon=True).start()
        return future

    def close(self) -> None:
        """Close all idle consumers."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, OrderedDict()
        for consumer in idle.values():
            consumer.close()

    def _answer(self, key: Key, partitions: Sequence[TopicPartition], deadline: Deadline) -> list[TopicPartition]:
        self._renew()
        with self._lock:
            idle = self._idle.pop(key, None)
        if idle is not None:
            with suppress(KafkaException):  # its connection may be stale: ask a new consumer
                return self._attempt(key, idle, partitions, Deadline(deadline.remaining(ATTEMPT_TIMEOUT_S)))
        group, settled = key
        isolation = "read_committed" if settled else "read_uncommitted"
        options = {**self._options, "group.id": group, "isolation.level": isolation}
        consumer = Consumer(self._credentials.prepared(options, self._failures))
        return self._attempt(key, consumer, partitions, deadline)

    def _renew(self) -> None:
        """Close the idle consumers if certificates were renewed after they connected."""
        with self._lock:
            if self._credentials.generation == self._generation:
                return
            self._generation = self._credentials.generation
            idle, self._idle = self._idle, OrderedDict()
        for consumer in idle.values():
            consumer.close()

    def _attempt(
        self, key: Key, consumer: Consumer, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> list[TopicPartition]:
        """Ask one consumer until it answers. If it does, keep it for the next request, otherwise close it."""
        answered = False
        try:
            found = _insist(consumer, partitions, deadline)
            answered = True
        finally:
            self._put_away(key, consumer, keep=answered)
        return found

    def _put_away(self, key: Key, consumer: Consumer, *, keep: bool) -> None:
        surplus = [consumer]
        with self._lock:
            if keep and not self._closed and key not in self._idle:
                self._idle[key] = surplus.pop()
            while len(self._idle) > MAX_IDLE_CONSUMERS:
                surplus.append(self._idle.popitem(last=False)[1])
        for each in surplus:
            each.close()


def _insist(consumer: Consumer, partitions: Sequence[TopicPartition], deadline: Deadline) -> list[TopicPartition]:
    """Ask until an answer or the deadline: a coordinator may be moving, or still loading."""
    while True:
        try:
            return _committed(consumer, partitions, Deadline(deadline.remaining(ATTEMPT_TIMEOUT_S)))
        except KafkaException as error:
            if client_error(error).code() not in _RETRIED_CODES or deadline.remaining() <= RETRY_PAUSE_S:
                raise
        time.sleep(RETRY_PAUSE_S)


def _committed(consumer: Consumer, partitions: Sequence[TopicPartition], deadline: Deadline) -> list[TopicPartition]:
    """Ask once. If access to the group is denied, the call only times out: the reason arrives as an event."""
    wanted = [TopicPartition(each.topic, each.partition) for each in partitions]
    try:
        found = consumer.committed(wanted, timeout=max(MIN_TIMEOUT_S, deadline.remaining()))
    except KafkaException:
        event = consumer.poll(0)
        error = event.error() if event is not None else None
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error) from None
        raise
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found
