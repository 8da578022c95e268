"""Telling a topic from another of the same name that took its place.

The native client reads on in a topic that was deleted and made again, at the old offset: what was written below it is
skipped without a word, and nothing tells that the topic is gone. So the topic's id is looked at now and then, and
always before messages are delivered that come after a silence: no topic is replaced without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import TopicDescription  # pyright: ignore[reportPrivateImportUsage]

from mqplug import Log, TopicNotFound
from mqplug_kafka._connection import KafkaConnection, incarnation
from mqplug_kafka._errors import native, translate

SILENCE = 0.4  # seconds; a fetch that failed is not repeated for half a second
EVERY = 2.0
CERTAIN = 2  # times that a topic has to be missed in a row: a broker may be the last to hear of it

Look = Callable[[], "dict[str, Future[TopicDescription]]"]


class Incarnations:
    """Watches the topics of one consumer."""

    def __init__(self, connection: KafkaConnection, logs: Iterable[Log]) -> None:
        self._ids = {log.topic: log.incarnation for log in logs}
        names = sorted(self._ids)
        self._look: Look = lambda: connection.admin.describe_topics(TopicCollection(names), request_timeout=5)
        self._under_way: dict[str, Future[TopicDescription]] = {}
        self._begun = self._heard = time.monotonic()
        self._missed = 0
        self._gone: TopicNotFound | None = None

    def incarnation(self, topic: str) -> str:
        """The id that the topic had when the consumer was opened."""
        return self._ids[topic]

    def heard(self) -> None:
        """Messages were delivered."""
        self._heard = time.monotonic()

    def doubt(self) -> None:
        """Something looks wrong: look soon."""
        self._begun = 0.0

    @property
    def silent(self) -> bool:
        """Whether there was a silence before what came just now."""
        return time.monotonic() - self._heard > SILENCE

    def idle(self) -> None:
        """Look now and then; raises ``TopicNotFound`` once a topic is gone."""
        self._judge(0.0)
        if not self._under_way and time.monotonic() - self._begun > EVERY:
            self._begin()

    def confirm(self, since: float, timeout: float) -> bool:
        """Whether all topics were there after that moment; False if the brokers did not say so in time."""
        if not self._under_way and self._begun < since:
            self._begin()
        self._judge(timeout)
        return not self._under_way and self._begun >= since and not self._missed

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._under_way = self._look()

    def _judge(self, timeout: float) -> None:
        """Take in what was answered."""
        if self._gone is not None:
            raise self._gone.with_traceback(None)
        if not self._under_way:
            return
        missing: TopicNotFound | None = None
        try:
            for name, future in self._under_way.items():
                missing = missing or self._missing(name, future, timeout)
        except FutureTimeout:
            return  # later
        except KafkaException:
            self._begun = 0.0  # no answer: ask again
        self._under_way = {}
        self._missed = self._missed + 1 if missing else 0
        if missing and self._missed >= CERTAIN:
            self._gone = missing
            raise missing
        if missing:
            self._begun = 0.0

    def _missing(self, name: str, future: Future[TopicDescription], timeout: float) -> TopicNotFound | None:
        try:
            found = future.result(timeout)
        except KafkaException as error:
            made = translate(native(error), f"topic {name!r}")
            if isinstance(made, TopicNotFound):
                return TopicNotFound(f"the topic {name!r} was deleted", topic=name)
            raise
        if incarnation(found) != self._ids[name]:
            return TopicNotFound(f"the topic {name!r} was deleted and made again", topic=name)
        return None
