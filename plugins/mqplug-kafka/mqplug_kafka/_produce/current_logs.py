"""The current logs of the topics that a producer sends to, for the ids of its messages.

A topic may be deleted and recreated while a producer is open. The client silently continues, and ids of the new topic
have another incarnation. So each topic is described once a second while records are sent to it. Records stored during
such a request get their ids when its answer arrives: usually no later than their delivery report, because both are
requested at the same time. Two signs of a new topic lead to another request before ids are given: a record at or before
the offset of an earlier one, and a report that took long, as of records that waited for the new topic.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import client_error
from mqplug_kafka._cluster.shared_producer import SharedProducer

DESCRIBE_EVERY_S = 1.0
STALL_S = 0.25  # after a longer time without a report, a topic is described again

_MISSING_CODES = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID}


class _Stored(Protocol):
    """A record that is stored at an offset, or a run with an offset for each record."""

    topic: str

    def stored(self, log: Log, coordinates: Any, /) -> None: ...


class CurrentLogs:
    """The logs of the topics that one producer sends to."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._begun: dict[str, float] = {}  # when the last description of each topic began
        self._seen: dict[str, float] = {}  # when that was, or when the last report on each topic came
        self._last: dict[tuple[str, int], int] = {}  # the offset of the last stored record of each partition
        self._pending: dict[str, Future[TopicDescription]] = {}  # running requests
        self._waiting: deque[tuple[_Stored, int, Any]] = deque()  # stored records whose log is not known yet

    def prepare(self, producer: SharedProducer, topic: str, partition: int) -> None:
        """Describe the topic of a record again if due, and make the client learn of its partition."""
        now = time.monotonic()
        if now - self._begun.get(topic, 0.0) >= DESCRIBE_EVERY_S:
            self._describe(topic, now)
        known = self._connection.known(topic)
        if known is not None:
            producer.learn(topic, partition, len(known.logs))

    def _describe(self, topic: str, now: float, anew: bool = False) -> None:
        """Begin to describe a topic, unless that has begun. ``anew``: it may have begun before a change."""
        if anew or topic not in self._pending:
            with suppress(KafkaException):  # no broker answers: keep the last description
                self._pending[topic] = self._connection.begin_to_describe(topic)
            self._begun[topic] = self._seen[topic] = now

    def stored(self, records: _Stored, partition: int, coordinates: Any) -> None:
        """Settle a stored record or run now, or once the logs of its topic are known again; always in order."""
        topic, now = records.topic, time.monotonic()
        if self._is_set_back((topic, partition), coordinates):
            self._describe(topic, now, anew=True)
        elif now - self._seen.get(topic, now) >= STALL_S:
            self._describe(topic, now)
        self._seen[topic] = now
        if self._waiting or self._pending:
            self._waiting.append((records, partition, coordinates))
        else:
            records.stored(self._log(topic, partition), coordinates)

    def _is_set_back(self, place: tuple[str, int], coordinates: Any) -> bool:
        """Return whether records are stored at or before the offset of an earlier one, and note the last offset."""
        first, last = coordinates[0], coordinates[len(coordinates) - 1]
        if not isinstance(first, int):  # of a run
            first, last = first[0], last[0]
        earlier = self._last.get(place, -1)
        self._last[place] = last
        return bool(first <= earlier)

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
            answer = asked.result(timeout)
            latest = self._pending.get(topic)
            if latest is not asked:  # begun anew, or remembered by another thread
                return latest is None
            self._connection.remember(answer)
        except FutureTimeout:
            return False
        except KafkaException as error:  # no broker answered, or the topic was deleted: keep the last description
            if client_error(error).code() in _MISSING_CODES and self._seen[topic] > self._begun[topic]:
                self._pending.pop(topic, None)
                self._describe(topic, time.monotonic())  # a record has been stored since, so it may be there again
                return False
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
