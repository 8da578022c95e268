"""Whether the topics of a consumer are still there, asked at intervals, and the error that tells of an outage."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import mqplug
from mqplug_pulsar._cluster.connection import PulsarConnection

TOPIC_CHECK_S = 2.0  # between two checks, and the time that one may take


class TopicChecks:
    """Asks for topics whose native consumers are not connected: one of a deleted topic stays silent forever.

    It never waits for the answer: a later call gets it.
    """

    def __init__(self, connection: PulsarConnection) -> None:
        self._connection = connection
        self._next_check = time.monotonic() + TOPIC_CHECK_S
        self._asked: Future[None] | None = None

    def hasten(self) -> None:
        """Make the next check due at once."""
        self._next_check = 0.0

    def outage(
        self, lost: Callable[[], set[str]], repair: Callable[[], mqplug.Error | None] = lambda: None
    ) -> mqplug.Timeout | None:
        """Ask for the ``lost`` topics, at intervals. Return the error of an outage; raise if one is gone.

        Once they are known to be there, call ``repair``, and raise its error.
        """
        if self._asked is None and time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + TOPIC_CHECK_S
            if topics := lost():
                self._asked = self._connection.calls.start(partial(self._ask_for_all, topics))
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            asked.result()
            failure = repair()
        except (mqplug.Timeout, mqplug.ConnectError) as error:
            return unreachable(error)
        if failure is not None:
            raise failure
        return None

    def _ask_for_all(self, topics: set[str]) -> None:
        for topic in topics:
            self._ask_for(topic)

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
