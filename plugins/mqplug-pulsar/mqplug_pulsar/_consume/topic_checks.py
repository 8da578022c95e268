"""Whether the topics of a consumer are still there, asked at intervals, and the error that tells of an outage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import mqplug
from mqplug_pulsar._cluster.connection import PulsarConnection

TOPIC_CHECK_S = 2.0  # between two checks, and the time that one may take


class TopicChecks:
    """Asks for topics whose native consumers are not connected: one of a deleted topic stays silent forever."""

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._next_check = time.monotonic() + TOPIC_CHECK_S

    def due(self) -> bool:
        """Return whether it is time for a check. The next one is due an interval later."""
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + TOPIC_CHECK_S
        return True

    def hasten(self) -> None:
        """Make the next check due at once."""
        self._next_check = 0.0

    def outage(self, topics: Iterable[str], repair: Callable[[], None] = lambda: None) -> mqplug.Timeout | None:
        """Ask for topics, then repair. Return the error if no broker can be reached, raise if a topic is gone."""
        try:
            for topic in topics:
                self._ask_for(topic)
            repair()
        except (mqplug.Timeout, mqplug.ConnectError) as error:
            return unreachable(error)
        return None

    def _ask_for(self, topic: str) -> None:
        try:
            self._connection.describe(topic, TOPIC_CHECK_S)
        except mqplug.Error as error:
            error.at(topic=topic)  # one of several
            raise


def unreachable(error: mqplug.Error, *, retries: str = "the client", topic: str | None = None) -> mqplug.Timeout:
    """Return the error that says that no broker can be reached for now, and what tries again."""
    told = mqplug.Timeout(
        f"the broker cannot be reached, {retries} tries again: {error.message}",
        topic=topic, fix="Check that the broker is up, or receive again",
    )  # fmt: skip
    told.__cause__ = error
    return told
