"""The open producers and consumers of a client, and the look for partitions added to the producers' topics."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from mqplug._base.deadline import Deadline
from mqplug._client.background_thread import BackgroundThread
from mqplug._model.errors import Error

if TYPE_CHECKING:
    from mqplug._client.topics import Topics
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._produce.producer_session import ProducerSession

LOOK_S = 5.0  # for one look for added partitions

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
        """Register a session that was just opened. Return False if the client has been closed."""
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
        """Make the producers look this topic up again before they send to it."""
        with self._lock:
            producers = list(self.producers)
        for producer in producers:
            producer.forget(topic)

    def topic_created(self) -> None:
        """Make the consumers that follow a pattern look for new topics."""
        with self._lock:
            consumers = list(self.consumers)
        for consumer in consumers:
            consumer.look_for_topics_soon()

    def shut(self) -> None:
        """Register nothing more."""
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


class AddedPartitions:
    """A worker that makes producers use added partitions. One look serves all producers of a client.

    ``producers`` are the open ones.
    """

    def __init__(self, topics: Topics, producers: set[ProducerSession]) -> None:
        self._topics = topics
        self._producers = producers

    def work_in_background(self) -> None:
        """Look up the topics of all producers that are due, or will be within half their interval."""
        now = time.monotonic()
        producers = self._producers.copy()  # atomic: other threads open and close producers
        if not any(now >= each.refresh_at for each in producers):
            return
        due = [each for each in producers if now >= each.refresh_at - each.partitions_refresh / 2]
        routes = [(each, route) for each in due for route in each.known_routes()]
        for each in due:
            each.refresh_at = now + each.partitions_refresh
        with suppress(Error):  # the next look finds what this one missed; sends report an outage
            found = self._topics.find_existing(sorted({route.topic for _, route in routes}), Deadline(LOOK_S))
            for producer, route in routes:
                if len(found.get(route.topic, ())) not in {0, route.partitions}:
                    producer.replace(route, len(found[route.topic]))
