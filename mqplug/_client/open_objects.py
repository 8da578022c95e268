"""The open producers and consumers of a client, and the thread that serves them in the background."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from mqplug._base.background import BackgroundThread
from mqplug._client.added_partitions import AddedPartitions
from mqplug._model.errors import Error

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._client.topics import Topics
    from mqplug._consume.session import ConsumerSession
    from mqplug._produce.producer_session import ProducerSession

OpenedSession = TypeVar("OpenedSession", "ProducerSession", "ConsumerSession")


class OpenObjects:
    """The open producers and consumers of a client, until it closes."""

    def __init__(self, topics: Topics) -> None:
        self._background = BackgroundThread()
        self.producers: set[ProducerSession] = set()
        self.consumers: set[ConsumerSession] = set()
        self._added_partitions = AddedPartitions(topics, self.producers)
        self._shut = False
        self._lock = Lock()

    def add(self, opened: OpenedSession, among: set[OpenedSession]) -> bool:
        """Take in a session that was just opened. Return False if the client was closed meanwhile."""
        with self._lock:
            if self._shut:
                return False
            among.add(opened)
            self._background.add(opened)
            self._background.add(self._added_partitions)
            return True

    def forget(self, closed: ProducerSession | ConsumerSession) -> None:
        """Remove a session that was closed."""
        self._background.remove(closed)
        with self._lock:
            self.producers.discard(closed)
            self.consumers.discard(closed)

    def topic_changed(self, topic: str) -> None:
        """Have the producers look this topic up again before they send to it."""
        with self._lock:
            producers = list(self.producers)
        for producer in producers:
            producer.forget(topic)

    def topic_created(self) -> None:
        """Have the consumers that chose their topics by a pattern look for new ones."""
        with self._lock:
            consumers = list(self.consumers)
        for consumer in consumers:
            consumer.look_for_topics_soon()

    def shut(self) -> None:
        """Take in nothing more."""
        with self._lock:
            self._shut = True

    def close(self, deadline: Deadline) -> list[Error]:
        """Close consumers, then producers. Return the errors."""
        with self._lock:
            sessions = [*self.consumers, *self.producers]
        failures: list[Error] = []
        for session in sessions:
            try:
                session.close(deadline.timeout_left())
            except Error as error:
                failures.append(error)
        self._background.stop()
        return failures
