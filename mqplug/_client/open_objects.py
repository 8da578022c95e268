"""What a client has open, and the keeper that serves it while its callers are away."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from mqplug._base.background import BackgroundThread
from mqplug._model.errors import Error
from mqplug._produce.producer import Producer

if TYPE_CHECKING:
    from mqplug._base.deadline import Deadline
    from mqplug._consume.consumer import Consumer


class OpenObjects:
    """The producers and consumers of a client, until it closes."""

    def __init__(self) -> None:
        self._background = BackgroundThread()
        self._open: set[Producer | Consumer] = set()
        self._shut = False
        self._lock = Lock()

    def adopt(self, child: Producer | Consumer) -> bool:
        """Take in what was just opened; False if the client was closed meanwhile."""
        with self._lock:
            if self._shut:
                return False
            self._open.add(child)
            self._background.add(child)
            return True

    def forget(self, child: Producer | Consumer) -> None:
        """It was closed."""
        self._background.remove(child)
        with self._lock:
            self._open.discard(child)

    def topic_changed(self, topic: str) -> None:
        """Producers look at this topic again before they send to it."""
        with self._lock:
            producers = [child for child in self._open if isinstance(child, Producer)]
        for producer in producers:
            producer._forget(topic)

    def shut(self) -> None:
        """Take in nothing more."""
        with self._lock:
            self._shut = True

    def close(self, deadline: Deadline) -> list[Error]:
        """Close consumers, then producers; what went wrong."""
        with self._lock:
            children = sorted(self._open, key=lambda child: isinstance(child, Producer))
        failures: list[Error] = []
        for child in children:
            try:
                child.close(None if deadline.timeout is None else deadline.remaining())
            except Error as error:
                failures.append(error)
        self._background.stop()
        return failures
