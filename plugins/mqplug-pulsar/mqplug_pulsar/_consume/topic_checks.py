"""Checks a consumer's topics at intervals, in the background: whether they still exist, and whether they have grown.

No call waits for a check: a later poll gets the answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import mqplug
from mqplug import Closed, Log
from mqplug_pulsar._cluster.connection import PulsarConnection

TOPIC_CHECK_S = 2.0  # between two checks, and the timeout of one


class TopicChecks:
    """Asks for topics whose client consumers are disconnected: one of a deleted topic stays silent forever.

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
        """Ask for the ``lost`` topics, at intervals. Return the error of an outage; raise if a topic is gone.

        Once all are known to exist, call ``repair``, and raise the error that it returns.
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
    """Return the error for an outage, which names the part that retries."""
    told = mqplug.Timeout(
        f"the broker cannot be reached; {retries} tries again: {error.message}",
        topic=topic, fix="Check that the broker is up, or receive again",
    )  # fmt: skip
    told.__cause__ = error
    return told


PARTITION_CHECK_S = 5.0
OpenedConsumers = dict[Log, Any]  # the client's consumers


class AddedPartitions:
    """Checks for added partitions at intervals, and opens a client's consumer for each."""

    def __init__(self, connection: PulsarConnection, logs: Iterable[Log], subscribe: Callable[[Log], Any]) -> None:
        self._connection = connection
        self._counts: Mapping[str, int] = Counter(log.topic for log in logs)
        self._subscribe = subscribe
        self._next = time.monotonic() + PARTITION_CHECK_S
        self._under_way: Future[OpenedConsumers] | None = None

    def follow(self, logs: Iterable[Log]) -> None:
        """Check the topics of these logs from now on."""
        self._counts = Counter(log.topic for log in logs)

    def opened(self, held: Iterable[Log]) -> OpenedConsumers:
        """Return the consumers opened since the last call, of logs that are not held yet. Never wait."""
        look = self._under_way
        if look is None:
            if time.monotonic() >= self._next:
                self._begin()
            return {}
        if not look.done():
            return {}
        self._under_way, self._next = None, time.monotonic() + PARTITION_CHECK_S
        if look.exception() is not None:
            return {}  # the broker is down, or the topic is deleted: a poll reports it
        found = look.result()
        unwanted = {log for log in found if log in held or log.topic not in self._counts}  # the topics have changed
        _close({log: found.pop(log) for log in unwanted})
        self._counts = Counter(self._counts) + Counter(log.topic for log in found)
        return found

    def _begin(self) -> None:
        with suppress(Closed):
            self._under_way = self._connection.calls.start(self._look)

    def _look(self) -> OpenedConsumers:
        opened: OpenedConsumers = {}
        try:
            for topic, count in self._counts.items():
                there = self._connection.client.get_topic_partitions(self._connection.names.full(topic))
                for partition in range(count, len(there)):
                    log = self._connection.log(topic, partition)
                    opened[log] = self._subscribe(log)
        except BaseException:
            _close(opened)
            raise
        return opened

    def stop(self) -> None:
        """Stop checking, and close the consumers that a running check opens."""
        if self._under_way is not None:
            self._under_way.add_done_callback(lambda done: None if done.exception() else _close(done.result()))
            self._under_way, self._next = None, float("inf")


def _close(opened: OpenedConsumers) -> None:
    for native in opened.values():
        with suppress(Exception):
            native.close()
