"""Looks for partitions that other clients added to the topics of a client's producers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mqplug._base.deadline import Deadline
from mqplug._model.errors import Error, TopicNotFound

if TYPE_CHECKING:
    from mqplug._client.topics import Topics
    from mqplug._model.log import Log
    from mqplug._produce.producer_session import ProducerSession

LOOK_S = 5.0


class AddedPartitions:
    """Has producers send to all partitions that their topics have. One look serves all producers of a client.

    ``producers`` are the open ones.
    """

    def __init__(self, topics: Topics, producers: set[ProducerSession]) -> None:
        self._topics = topics
        self._producers = producers

    def work_in_background(self) -> None:
        """Look up the topics of all producers that are due, or soon will be."""
        now = time.monotonic()
        producers = self._producers.copy()  # in one step: other threads open and close some
        if not any(now >= each.refresh_at for each in producers):
            return
        due = [each for each in producers if now >= each.refresh_at - each.partitions_refresh / 2]
        routes = [(each, route) for each in due for route in each.known_routes()]
        for each in due:
            each.refresh_at = now + each.partitions_refresh
        with suppress(Error):  # the next look finds what this one missed, and sends report an outage
            found = self._find(sorted({route.topic for _, route in routes}))
            for producer, route in routes:
                if len(found.get(route.topic, ())) not in {0, route.partitions}:
                    producer.replace(route, len(found[route.topic]))

    def _find(self, names: Sequence[str]) -> dict[str, Sequence[Log]]:
        deadline = Deadline(LOOK_S)
        try:
            return self._topics.find_all(names, deadline) if names else {}
        except TopicNotFound:  # one of them was deleted
            found: dict[str, Sequence[Log]] = {}
            for name in names:
                with suppress(TopicNotFound):
                    found[name] = self._topics.find(name, deadline).logs
            return found
