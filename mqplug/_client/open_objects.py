"""The open producers and consumers of a client, and the background thread that serves them.

The thread also looks for partitions that other clients added to the producers' topics.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

from mqplug._base.deadline import Deadline
from mqplug._model.errors import Error

if TYPE_CHECKING:
    from mqplug._client.topics import Topics
    from mqplug._consume.consumer_session import ConsumerSession
    from mqplug._produce.producer_session import ProducerSession

logger = logging.getLogger("mqplug")

ROUND_INTERVAL_S = 0.2
STOP_WAIT_S = 1.0  # for a running round
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


class BackgroundWorker(Protocol):
    """An object with work to do between its caller's calls."""

    def work_in_background(self) -> None:
        """Do what is due now."""
        ...


class BackgroundThread:
    """A thread that runs from the first ``add`` until ``stop``. A failed round is logged; the next call raises."""

    def __init__(self) -> None:
        self._workers: WeakSet[BackgroundWorker] = WeakSet()
        self._lock = Lock()
        self._done = Event()
        self._thread: Thread | None = None

    def add(self, worker: BackgroundWorker) -> None:
        """Call this worker in every later round."""
        with self._lock:
            self._workers.add(worker)
            if self._thread is None:
                thread = Thread(target=self._run, name="mqplug-background", daemon=True)
                thread.start()
                self._thread = thread  # only now: Ctrl-C may have ended its start

    def remove(self, worker: BackgroundWorker) -> None:
        """Stop calling this worker."""
        with self._lock:
            self._workers.discard(worker)

    def stop(self) -> None:
        """End the thread. A running round gets a second to finish."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        while not self._done.wait(ROUND_INTERVAL_S):
            self._work()

    def _work(self) -> None:
        """Run one round. Between rounds the thread keeps no worker alive."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            try:
                worker.work_in_background()
            except Error as error:
                logger.warning("background work of %r failed: %s", worker, error)
            except Exception:  # a driver's defect in one must not stop the others
                logger.exception("background work of %r failed", worker)


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
