"""The current logs of the topics that a producer sends to, for the ids of its messages.

A topic may be deleted and recreated while a producer is open. The client silently continues, and ids of the new topic
have another incarnation. So each topic is described once a second while records are sent to it. Records stored during
such a request get their ids when its answer arrives: usually no later than their delivery report, because both are
requested at the same time.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.shared_producer import SharedProducer

DESCRIBE_EVERY_S = 1.0


class _Stored(Protocol):
    """A record that is stored at an offset, or a run with an offset for each record."""

    topic: str

    def stored(self, log: Log, coordinates: Any, /) -> None: ...


class CurrentLogs:
    """The logs of the topics that one producer sends to."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._due: dict[str, float] = {}  # when to describe each topic again
        self._pending: dict[str, Future[TopicDescription]] = {}  # running requests
        self._waiting: deque[tuple[_Stored, int, Any]] = deque()  # stored records whose log is not known yet

    def prepare(self, producer: SharedProducer, topic: str, partition: int) -> None:
        """Describe the topic of a record again if due, and make the client learn of its partition."""
        now = time.monotonic()
        if now >= self._due.get(topic, 0.0):
            self._refresh(topic, now)
        known = self._connection.known(topic)
        if known is not None:
            producer.learn(topic, partition, len(known.logs))

    def _refresh(self, topic: str, now: float) -> None:
        """Begin to describe a due topic. The first time, the core has just described it."""
        if topic in self._due and topic not in self._pending:
            with suppress(KafkaException):  # no broker answers: keep the last description
                self._pending[topic] = self._connection.begin_to_describe(topic)
        self._due[topic] = now + DESCRIBE_EVERY_S

    def stored(self, records: _Stored, partition: int, coordinates: Any) -> None:
        """Settle a stored record or run now, or once the logs of its topic are known again; always in order."""
        if self._waiting or self._pending:
            self._waiting.append((records, partition, coordinates))
        else:
            records.stored(self._log(records.topic, partition), coordinates)

    def settle(self, timeout: float) -> None:
        """Settle waiting records whose logs are known, or become known in time."""
        waiting = self._waiting
        while waiting and self._known(waiting[0][0].topic, timeout):
            try:
                records, partition, coordinates = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            records.stored(self._log(records.topic, partition), coordinates)

    def _known(self, topic: str, timeout: float) -> bool:
        asked = self._pending.get(topic)
        if asked is None:
            return True
        try:
            self._connection.remember(asked.result(timeout))
        except FutureTimeout:
            return False
        except KafkaException:
            pass  # no broker answered: keep the last description
        self._pending.pop(topic, None)
        return True

    def _log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition."""
        info = self._connection.known(topic)
        if info is None:
            return self._connection.log(topic, partition, "")  # deleted by this client
        if partition < len(info.logs):
            return info.logs[partition]
        return self._connection.log(topic, partition, info.logs[0].incarnation)
