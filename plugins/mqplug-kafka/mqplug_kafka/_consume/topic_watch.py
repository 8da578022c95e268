"""Detects that a topic was deleted, or deleted and recreated under the same name.

The client silently continues in the new topic at the old offset, and so skips messages below it. So the topics' ids are
checked at intervals, even while messages keep coming, and always before delivery of messages that end a silence of
their log: no topic is replaced without a silence. Kafka stores offsets by name, so the ids are also checked before a
commit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from concurrent.futures import Future, TimeoutError as FutureTimeout

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log, TopicNotFound
from mqplug.spi import Deadline
from mqplug_kafka._cluster.admin_requests import MIN_TIMEOUT_S, RETRY_PAUSE_S
from mqplug_kafka._cluster.connection import KafkaConnection
from mqplug_kafka._cluster.errors import client_error, typed_error
from mqplug_kafka._cluster.topic_metadata import incarnation, is_other
from mqplug_kafka._consume.message_source import Name

SILENCE_S = 0.4  # less than the half second after which a failed fetch is repeated
TOPIC_CHECK_S = 1.5  # between two checks, so that a deletion is reported within two seconds
MISSES_UNTIL_GONE = 2  # in a row: the asked broker may be the last to learn of a new topic
CONFIRMED_FOR_S = 0.1  # after a check, positions are stored without another one: no topic is recreated faster


class TopicWatch:
    """The topics of one consumer. Checks that they are still the ones that it began to read."""

    def __init__(self, connection: KafkaConnection, logs: Iterable[Log]) -> None:
        self._ids = {log.topic: log.incarnation for log in logs}
        self._names = sorted(self._ids)
        self._under_way: dict[str, Future[TopicDescription]] = {}
        self._begun = self._opened = time.monotonic()
        self._active_at: dict[Name, float] = {}
        self._answered = 0.0
        self._answering_since = math.inf
        self._missed = 0
        self._gone: TopicNotFound | None = None
        self._connection = connection
        self._sure: dict[str, float] = {}  # when each topic was last confirmed

    def follow(self, logs: Iterable[Log]) -> None:
        """Watch the topics of these logs from now on. Keep the ids of earlier ones: their logs may be revoked later."""
        ids = {log.topic: log.incarnation for log in logs}
        self._ids |= ids
        self._names = sorted(ids)
        self._under_way, self._missed, self._gone = {}, 0, None
        self._begun = time.monotonic()

    def incarnation(self, topic: str) -> str:
        """Return the id that the topic had when the consumer began to read it."""
        return self._ids[topic]

    def note_activity(self, names: Iterable[Name]) -> None:
        """Note that messages of these logs were delivered."""
        self._active_at.update(dict.fromkeys(names, time.monotonic()))

    def answered_for(self, since: float) -> float:
        """Return for how many seconds since ``since`` the brokers have answered all checks."""
        return self._answered - max(since, self._answering_since)

    def check_soon(self) -> None:
        """Make the next ``check_in_turn`` begin a check."""
        self._begun = 0.0

    def silent(self, names: Iterable[Name]) -> bool:
        """Return whether any of these logs was silent before the messages that just arrived."""
        latest = time.monotonic() - SILENCE_S
        return any(self._active_at.get(name, self._opened) < latest for name in names)

    def check_in_turn(self) -> None:
        """Begin a check if one is due. Raise ``TopicNotFound`` once a topic is gone."""
        self._judge(0.0)
        if not self._under_way and time.monotonic() - self._begun > TOPIC_CHECK_S:
            self._begin()

    def confirm(self, since: float, timeout: float) -> bool:
        """Return whether all topics existed after that moment; False if the brokers did not answer in time."""
        if not self._under_way and self._begun < since:
            self._begin()
        self._judge(timeout)
        return not self._under_way and self._begun >= since and not self._missed

    def lost(self, topics: Iterable[str], timeout: float) -> dict[str, TopicNotFound]:
        """Check these topics now, except recently confirmed ones. Return the errors of the topics that are gone.

        Any thread may call it. Raise an error if the brokers do not answer.
        """
        deadline = Deadline(timeout)
        due = sorted(
            topic
            for topic in set(topics)
            if time.monotonic() - self._sure.get(topic, -CONFIRMED_FOR_S) >= CONFIRMED_FOR_S
        )
        gone: dict[str, TopicNotFound] = {}
        for attempt in range(MISSES_UNTIL_GONE):
            if due:
                time.sleep(RETRY_PAUSE_S * attempt)
                gone = self._lost_of(due, deadline)
                due = list(gone)
        return gone

    def _lost_of(self, topics: list[str], deadline: Deadline) -> dict[str, TopicNotFound]:
        began = time.monotonic()
        asked = self._connection.admin.describe_topics(
            TopicCollection(topics), request_timeout=max(MIN_TIMEOUT_S, deadline.remaining())
        )
        gone = {}
        for topic, future in asked.items():
            try:
                found = self._connection.requests.wait("commit", future, deadline.remaining())
                missing = self._other(topic, found)
            except TopicNotFound:
                missing = _deleted(topic)
            if missing is None:
                self._sure[topic] = began
            else:
                gone[topic] = missing
        return gone

    def _begin(self) -> None:
        self._begun = time.monotonic()
        # Not in a nested function: it would hold the watch, and so the connection, until a garbage collection.
        self._under_way = self._connection.admin.describe_topics(TopicCollection(self._names), request_timeout=5)

    def _judge(self, timeout: float) -> None:
        """Evaluate the answers to the running check, waiting up to ``timeout`` seconds for each."""
        if self._gone is not None:
            raise self._gone.with_traceback(None)
        if not self._under_way:
            return
        missing: TopicNotFound | None = None
        try:
            for name, future in self._under_way.items():
                missing = missing or self._missing(name, future, timeout)
        except FutureTimeout:
            return  # the next call looks again
        except KafkaException:
            self._begun = 0.0  # no answer: ask again
            self._answering_since = math.inf
            self._connection.requests.note_unanswered()
        else:
            self._answered = time.monotonic()
            self._answering_since = min(self._answering_since, self._answered)
        self._under_way = {}
        self._missed = self._missed + 1 if missing else 0
        if missing and self._missed >= MISSES_UNTIL_GONE:
            self._gone = missing
            raise missing
        if missing:
            self._begun = 0.0

    def _missing(self, name: str, future: Future[TopicDescription], timeout: float) -> TopicNotFound | None:
        try:
            found = future.result(timeout)
        except KafkaException as error:
            if isinstance(typed_error(client_error(error), name), TopicNotFound):
                return _deleted(name)
            raise
        return self._other(name, found)

    def _other(self, name: str, found: TopicDescription) -> TopicNotFound | None:
        if not is_other(incarnation(found), self._ids[name]):
            return None
        return TopicNotFound(f"the topic {name!r} was deleted and created again", topic=name)


def _deleted(name: str) -> TopicNotFound:
    return TopicNotFound(f"the topic {name!r} was deleted", topic=name)
